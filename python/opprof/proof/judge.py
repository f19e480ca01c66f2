"""Holds a launch map against what a run of the code showed: whether each launch computes exactly the nodes that the map lists. Needs PyTorch."""

import enum
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from opprof.proof.observe import Observation, Observed
from opprof.proof.trace import Step, Trace


class Verdict(enum.Enum):
    """What was proven of a launch."""

    EXACT = "exact"
    MISSING = "missing node"
    EXTRA = "extra node"
    BOTH = "other nodes"
    UNPROVEN = "not provable"

    @property
    def refutes(self) -> bool:
        return self in (Verdict.MISSING, Verdict.EXTRA, Verdict.BOTH)


@dataclass
class LaunchVerdict:
    """One launch of a map, judged."""

    index: int
    line: int
    kernel: str
    verdict: Verdict
    listed: list[str]
    missing: list[str] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)
    #: Why nothing could be proven, or with which launches it was proven together.
    note: str = ""
    #: By name of the node: whether it is right.
    right: dict[str, bool] = field(default_factory=dict)
    confidence: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "index": self.index,
            "line": self.line,
            "kernel": self.kernel,
            "verdict": self.verdict.value,
            "nodes": self.listed,
            **({"missing": self.missing} if self.missing else {}),
            **({"extra": self.extra} if self.extra else {}),
            **({"note": self.note} if self.note else {}),
        }


def _key(node: Mapping[str, Any]) -> tuple[str, str]:
    return node.get("graph", ""), node["name"]


def _label(key: tuple[str, str]) -> str:
    return f"{key[0]}.{key[1]}" if key[0] else key[1]


class _Claim:
    """What the map says of one launch, in steps of a trace."""

    def __init__(self, launch: Mapping[str, Any], trace: Trace):
        self.launch = launch
        self.keys: list[tuple[str, str]] = []
        self.steps: set[int] = set()
        self.lenient: set[tuple[str, str]] = set()
        self.of: dict[tuple[str, str], list[int]] = {}
        for node in launch["nodes"]:
            key = _key(node)
            self.keys.append(key)
            found = trace.of.get(key, [])
            self.steps.update(found)
            self.of[key] = found
            if node.get("continued") or node.get("prepares"):
                self.lenient.add(key)


class Derivation:
    """What has to be computed to get from the values that went in to one that came out."""

    def __init__(self, trace: Trace, held: set[int], allowed: set[int]):
        self.steps = trace.steps
        self.held = held
        self.allowed = allowed
        self.known: dict[int, bool] = {}

    def possible(self, root: int) -> bool:
        """Whether `root` can be had by computing allowed steps only."""
        pending = [root]
        while pending:
            number = pending[-1]
            if number in self.known:
                pending.pop()
                continue
            step = self.steps[number]
            if self._is_given(number, step):
                self.known[number] = True
            elif step.is_input or not (step.computes_nothing or number in self.allowed):
                self.known[number] = False
            else:
                open_operands = [o for o in step.operands if o not in self.known]
                if open_operands:
                    pending.extend(open_operands)
                    continue
                self.known[number] = all(self.known[o] for o in step.operands)
            pending.pop()
        return self.known[root]

    def _is_given(self, number: int, step: Step) -> bool:
        return number in self.held or not step.is_tensor

    def needs(self, roots: Iterable[int]) -> tuple[set[int], bool]:
        """All steps on the way to `roots` from what is held, and whether that is enough."""
        seen: set[int] = set()
        enough = True
        pending = list(roots)
        while pending:
            number = pending.pop()
            step = self.steps[number]
            if number in seen or self._is_given(number, step):
                continue
            seen.add(number)
            if step.is_input:
                enough = False
            pending.extend(step.operands)
        return seen, enough


def judge(maps: Mapping[str, Any], runs: Sequence[Observed]) -> list[LaunchVerdict]:
    """A verdict for each launch of the map; of several runs, the first in which it ran decides."""
    verdicts: dict[int, LaunchVerdict] = {}
    for run in runs:
        for verdict in _judge_run(maps, run):
            earlier = verdicts.get(verdict.index)
            if earlier is None or earlier.note == _NOT_RUN:
                verdicts[verdict.index] = verdict
    return [verdicts[index] for index in sorted(verdicts)]


_NOT_RUN = "it did not run"
_BLIND = "what it was given does not lead to what it wrote"


def _judge_run(maps: Mapping[str, Any], run: Observed) -> list[LaunchVerdict]:
    places: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for number, call in enumerate(run.calls):
        places.setdefault((call.line, call.call_lines), []).append(number)
    claims, calls = [], []
    for launch in maps["launches"]:
        place = launch["line"], tuple(launch.get("call_lines", ()))
        claims.append(_Claim(launch, run.trace))
        calls.append(places.get(place, []))
    # What ran but was joined in a loop counts once, by its first time.
    of_call = {numbers[0]: position for position, numbers in enumerate(calls) if numbers}
    groups = _groups(run.calls, calls, of_call)
    verdicts = []
    for position, claim in enumerate(claims):
        if not calls[position] and claim.launch["kernel"] == "Tensor.item" and not claim.keys:
            verdicts.append(_verdict(claim, Verdict.EXACT, note="it takes a number to the host"))
            continue
        if not calls[position]:
            verdicts.append(_verdict(claim, Verdict.UNPROVEN, note=_NOT_RUN))
            continue
        group = groups[position]
        members = [(claims[p], run.calls[calls[p][0]]) for p in sorted(group)]
        # What ends with a member and is no node's value: nothing shows what it is made of.
        handed_on = set[int]().union(*(call.unknown_from for _, call in members))
        unknown = [
            place.name
            for p in sorted(group)
            if calls[p][0] not in handed_on
            for place in run.calls[calls[p][0]].written
            if not place.steps
        ]
        call = run.calls[calls[position][0]]
        if not any(w.steps for _, member in members for w in member.written):
            if not call.written and (note := _why_unchanged(claim, call, claims, run.trace)):
                right = {_label(key): True for key in claim.keys}
                verdicts.append(_verdict(claim, Verdict.EXACT, note=note, right=right))
                continue
        verdict = _judge_launch(claim, call, members, unknown, run.trace)
        if verdict.note == _BLIND and call.replaced:
            # It may have been made of what it wrote over: a softmax of one element is one, whatever that is.
            given = [(claims[p], run.calls[calls[p][0]].with_replaced()) for p in sorted(group)]
            again = _judge_launch(claim, call, given, unknown, run.trace)
            if again.verdict is Verdict.EXACT and _has_all_of_its_values(given, run.trace):
                again.note = "what it was given shows in nothing that it wrote"
                verdict = again
        verdicts.append(verdict)
    return verdicts


def _groups(
    observed: Sequence[Observation], calls: Sequence[Sequence[int]], of_call: Mapping[int, int]
) -> dict[int, set[int]]:
    """Launches that hand on values of no node can only be judged with those that they hand them to."""
    groups = {position: {position} for position in range(len(calls))}
    for position, numbers in enumerate(calls):
        if not numbers:
            continue
        for writer in observed[numbers[0]].unknown_from:
            other = of_call.get(writer)
            if other is None or groups[other] is groups[position]:
                continue
            joined = groups[other] | groups[position]
            for member in joined:
                groups[member] = joined
    return groups


def _verdict(claim: _Claim, verdict: Verdict, **more: Any) -> LaunchVerdict:
    launch = claim.launch
    confidence = {
        _label(_key(node)): node["confidence"] for node in launch["nodes"] if "confidence" in node
    }
    return LaunchVerdict(
        launch["index"],
        launch["line"],
        launch["kernel"],
        verdict,
        [_label(key) for key in claim.keys],
        confidence=confidence,
        **more,
    )


def _judge_launch(
    claim: _Claim,
    call: Observation,
    members: Sequence[tuple[_Claim, Observation]],
    unknown: Sequence[str],
    trace: Trace,
) -> LaunchVerdict:
    reads = _reads(members)
    held = set().union(*reads)
    allowed = set().union(*(member.steps for member, _ in members))
    written = [w for _, member in members for w in member.written if w.steps]
    if not written:
        if not claim.keys and not call.written:
            return _verdict(claim, Verdict.EXACT, note="it computes nothing")
        why = "what it writes is no node's value" if call.written else "it wrote nothing new"
        return _verdict(claim, Verdict.UNPROVEN, note=why)
    together = [m.launch["index"] for m, _ in members if m is not claim]
    note = f"together with launch {', '.join(map(str, together))}" if together else ""
    derivation = Derivation(trace, held, allowed)
    missing: set[int] = set()
    used: set[int] = set()
    blind = False
    for place in written:
        possible = [root for root in place.steps if derivation.possible(root)]
        for root in possible or place.steps:
            used |= derivation.needs([root])[0] | {root}
        if not possible:
            best, enough = _least(derivation, place.steps, trace, allowed)
            missing |= best
            blind = blind or not enough
    extra = [
        key
        for key in _unused(claim, used, reads, derivation)
        if not trace.only_asserts(claim.of[key])
    ]
    # What a value of no node is made of can't be told: only that the nodes can be computed from what went in.
    if unknown and extra:
        sure = [
            key
            for key in extra
            if held.intersection(claim.of[key]) or not _computable(key, derivation, trace)
        ]
        if not sure and not missing:
            return _verdict(claim, Verdict.UNPROVEN, note=f"{', '.join(unknown)}: no node's value")
        extra = sure
    names = sorted({_label((trace.steps[n].graph, trace.steps[n].name)) for n in missing})
    if blind:
        return _verdict(
            claim,
            Verdict.UNPROVEN,
            note=_BLIND,
            missing=names,
        )
    surplus = [_label(key) for key in extra]
    right = {_label(key): _label(key) not in surplus for key in claim.keys}
    kind = Verdict.EXACT
    if names:
        kind = Verdict.BOTH if surplus else Verdict.MISSING
    elif surplus:
        kind = Verdict.EXTRA
    return _verdict(claim, kind, missing=names, extra=surplus, note=note, right=right)


def _why_unchanged(claim: _Claim, call: Observation, claims: Sequence[_Claim], trace: Trace) -> str:
    """Why a launch with these nodes changes nothing; empty where that is not proven."""
    if _gives_again(claim, call, claims, trace):
        return "it leaves what it was given, and its nodes alone give that again"
    if _only_copies(claim, call, claims, trace):
        return "it leaves what it was given, and its nodes only copy"
    if _only_asserts(claim, call, trace):
        return "it only checks what it was given"
    return ""


def _only_copies(claim: _Claim, call: Observation, claims: Sequence[_Claim], trace: Trace) -> bool:
    """Whether all nodes of a launch are copies of what it was given, or views of these, and no other launch has one of them."""
    if any(key in other.of for other in claims if other is not claim for key in claim.keys):
        return False
    steps = [trace.steps[number] for number in claim.steps]
    return any(step.same for step in steps) and all(
        number >= 0
        and not trace.steps[number].is_input
        and (trace.steps[number].same or trace.steps[number].free)
        and any(number in read for read in call.reads)
        for key in claim.keys
        for number in claim.of[key] or [-1]
    )


def _has_all_of_its_values(members: Sequence[tuple[_Claim, Observation]], trace: Trace) -> bool:
    """Whether no step that computes what launches wrote is another's: which one they ran would not show."""
    own = set().union(*(claim.steps for claim, _ in members))
    return all(
        number in own or trace.steps[number].is_input or trace.steps[number].computes_nothing
        for _, call in members
        for place in call.written
        for number in place.steps
    )


def _only_asserts(claim: _Claim, call: Observation, trace: Trace) -> bool:
    """Whether all nodes of a launch are checks, or computed for these alone, of what it was given and of nothing else."""
    if not all(trace.only_asserts(claim.of[key]) for key in claim.keys):
        return False
    held = set().union(*call.reads)
    checks = [number for number in claim.steps if trace.steps[number].asserts]
    operands = {operand for number in checks for operand in trace.steps[number].operands}
    derivation = Derivation(trace, held, claim.steps)
    if not checks or not all(derivation.possible(operand) for operand in operands):
        return False
    used = derivation.needs(operands)[0].union(checks)
    return not any(used.isdisjoint(claim.of[key]) for key in claim.keys)


def _gives_again(claim: _Claim, call: Observation, claims: Sequence[_Claim], trace: Trace) -> bool:
    """Whether the nodes of a launch that changed nothing lead from what it was given to the same value (a product with one, a sum with
    nothing), and neither has another launch one of them, nor is there a node of that value that no launch has."""

    def computes(number: int) -> bool:
        step = trace.steps[number]
        return not step.is_input and not step.computes_nothing

    values = [read for read in call.reads if read & claim.steps]
    roots = set().union(*(read & claim.steps for read in values))
    if not roots:
        return False
    derivation = Derivation(trace, set().union(*call.reads) - claim.steps, claim.steps)
    if not all(derivation.possible(root) for root in roots):
        return False
    used = derivation.needs(roots)[0] | roots
    own = [key for key in claim.keys if any(computes(number) for number in claim.of[key])]
    if not own or any(used.isdisjoint(claim.of[key]) for key in claim.keys):
        return False
    if any(key in other.of for other in claims if other is not claim for key in own):
        return False
    known = set().union(*(other.steps for other in claims))
    return all(number in known or not computes(number) for read in values for number in read)


def _least(
    derivation: Derivation, roots: Iterable[int], trace: Trace, allowed: set[int]
) -> tuple[set[int], bool]:
    """The fewest steps that have to be added to compute one of `roots`, and whether they would be enough."""
    best: tuple[int, set[int], bool] | None = None
    for root in sorted(roots):
        needed, enough = derivation.needs([root])
        lacking = {
            number for number in needed - allowed if not trace.steps[number].computes_nothing
        }
        rank = len(lacking) + (0 if enough else 1_000_000)
        if best is None or rank < best[0]:
            best = rank, lacking, enough
    assert best is not None
    return best[1], best[2]


def _reads(members: Sequence[tuple[_Claim, Observation]]) -> list[frozenset[int]]:
    """What went into launches that are judged together, less what they hand to one another."""
    reads: list[frozenset[int]] = []
    made: list[frozenset[int]] = []
    for _, call in members:
        reads += [steps for steps in call.reads if not any(steps <= own for own in made)]
        made += [place.steps for place in call.written if place.steps]
    return reads


def _unused(
    claim: _Claim, used: set[int], reads: Sequence[frozenset[int]], derivation: Derivation
) -> list[tuple[str, str]]:
    """The nodes of a claim that have no part in what was written; what values could not show is no fault."""
    steps = derivation.steps
    used = set(used)
    keys = list(reversed(claim.keys))
    # Of what is written there may be such nodes too: these are used, and nothing of theirs is yet.
    followed: set[int] = set()
    while True:
        ambiguous = [
            number
            for key in keys
            for number in claim.of[key]
            if _is_ambiguous(number, reads, steps) and number not in followed
        ]
        if not ambiguous:
            break
        followed.update(ambiguous)
        used.update(ambiguous)
        # What such a node is made of is as good as it is.
        for number in ambiguous:
            used |= derivation.needs(steps[number].operands)[0]
    held = set().union(*reads)
    return [key for key in claim.keys if not _is_used(key, claim, used, held, steps)]


def _is_ambiguous(number: int, reads: Sequence[frozenset[int]], steps: Sequence[Step]) -> bool:
    """Whether a value that went in is that of this step and of another: nothing was added, or multiplied by one, or widened."""
    base = _base(number, steps)
    return any(number in held and any(_base(o, steps) != base for o in held) for held in reads)


def _is_used(
    key: tuple[str, str], claim: _Claim, used: set[int], held: set[int], steps: Sequence[Step]
) -> bool:
    for number in claim.of[key]:
        step = steps[number]
        if number in used or step.free:
            return True
        if step.constant and any(number in steps[n].operands for n in claim.steps):
            return True
        if step.same and any(o in used | held for o in step.operands):
            return True
        if key in claim.lenient and any(_reaches(o, used | held, steps) for o in step.operands):
            return True
        if step.operator in _ASSEMBLES and any(_reaches(o, used, steps) for o in step.operands):
            return True
    return False


#: Operators whose parts are written by several launches.
_ASSEMBLES = {"aten.cat", "aten.stack", "aten.constant_pad_nd", "aten.slice_scatter"}


def _base(number: int, steps: Sequence[Step]) -> int:
    """The step that made the value of which this one is a view or a copy."""
    while (steps[number].free or steps[number].same) and steps[number].operands:
        number = steps[number].operands[0]
    return number


def _reaches(number: int, goal: set[int], steps: Sequence[Step]) -> bool:
    while number not in goal:
        step = steps[number]
        if not (step.free or step.same) or not step.operands:
            return False
        number = step.operands[0]
    return True


def _computable(key: tuple[str, str], derivation: Derivation, trace: Trace) -> bool:
    return any(derivation.possible(number) for number in trace.of.get(key, []))


def confidence_shares(verdicts: Sequence[LaunchVerdict]) -> dict[str, dict[str, int]]:
    """Of the nodes of each confidence: how many were judged, and how many of these are right."""
    judged: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for verdict in verdicts:
        for name, is_right in verdict.right.items():
            confidence = verdict.confidence.get(name, "unstated")
            judged[confidence] += 1
            right[confidence] += is_right
    return {name: {"judged": judged[name], "right": right[name]} for name in judged}
