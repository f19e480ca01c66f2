// Inductor's generated wrapper, interpreted. The module, its functions and
// their statements. Interpreter.h says where the rest of the walk is.

#include "Interpreter.h"
#include "KernelDefinitions.h"
#include "Sizes.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Twine.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;
using namespace opprof::launch;

void Interpreter::keep(const Stmt &stmt) {
  auto [it, inserted] = understood.try_emplace(&stmt, false);
  if (inserted && program.keptText.size() < 32)
    program.keptText.push_back(
        (Twine(stmt.line) + ": " + stmt.source.take_front(160)).str());
}

void Interpreter::countBoilerplate(ArrayRef<const Stmt *> body) {
  for (const Stmt *stmt : body) {
    if (stmt->kind == Stmt::Text)
      keep(*stmt);
    else
      understood.try_emplace(stmt, true);
    countBoilerplate(stmt->body);
    countBoilerplate(stmt->orelse);
  }
}

/// rand_strided((4,), (1,), device='cpu', dtype=torch.float32)
static std::optional<TensorInfo> readRandStrided(const Expr &expr) {
  if (expr.kind != Expr::Call || !expr.items[0]->isName("rand_strided"))
    return std::nullopt;
  TensorInfo info;
  SmallVector<const Expr *> args = expr.positional();
  auto read = [](const Expr *tuple, std::vector<Dim> &out) {
    for (const Expr *item : tuple->items) {
      Dim &dim = out.emplace_back();
      if (std::optional<int64_t> value = item->intValue())
        dim.value = value;
      else
        dim.symbol = item->source.str();
    }
  };
  if (!args.empty() && args[0]->kind == Expr::Tuple) {
    read(args[0], info.shape);
    info.shapeKnown = true;
  }
  if (args.size() > 1 && args[1]->kind == Expr::Tuple)
    read(args[1], info.stride);
  if (const Expr *device = expr.keyword("device"))
    info.device = device->stringValue().value_or("");
  if (const Expr *dtype = expr.keyword("dtype"))
    if (StringRef name = dtype->source; name.consume_front("torch."))
      info.dtype = name.str();
  return info;
}

/// The harness makes inputs of the sizes that the program was compiled with.
/// Sizes are taken from the program itself, dtypes and devices from here.
void Interpreter::readHarnessInputs(const Stmt &function) {
  for (const Stmt *stmt : function.body)
    if (stmt->kind == Stmt::Assign && stmt->targets.size() == 1 &&
        stmt->targets[0]->kind == Expr::Name && stmt->value) {
      // arg0_1 = 8: a size that is an input, by the name it has in `call`.
      if (std::optional<int64_t> size = stmt->value->intValue())
        harnessSizes[stmt->targets[0]->text] = *size;
      if (std::optional<TensorInfo> info = readRandStrided(*stmt->value)) {
        info->shape.clear();
        info->stride.clear();
        info->shapeKnown = false;
        inputInfo[stmt->targets[0]->text] = *info;
      }
    }
}

void Interpreter::readModuleStatement(const Stmt &stmt) {
  for (const CommentLine &comment : stmt.leading)
    if (StringRef text = comment.text; text.consume_front("# AOT ID: "))
      // A list of one: ['0_inference'].
      program.aotId = text.trim(" []'").str();

  switch (stmt.kind) {
  case Stmt::Function:
    functions[stmt.name] = &stmt;
    if (stmt.name == "call")
      entry = &stmt;
    if (stmt.name == "get_args" || stmt.name == "benchmark_compiled_module") {
      readHarnessInputs(stmt);
      countBoilerplate(stmt.body);
    }
    understood[&stmt] = true;
    return;
  case Stmt::Class:
    understood[&stmt] = true;
    for (const Stmt *member : stmt.body) {
      if (member->kind == Stmt::Function && member->name == "call") {
        entry = member;
        understood[member] = true;
        continue;
      }
      if (member->kind == Stmt::Function && !member->name.starts_with("__") &&
          member->name != "recursively_apply_fns") {
        functions[("self." + member->name).str()] = member;
        understood[member] = true;
        continue;
      }
      countBoilerplate(member);
    }
    return;
  case Stmt::Assign:
    if (std::optional<KernelDefinition> kernel = readKernelDefinition(
            stmt, [&](StringRef name) -> const KernelDefinition * {
              auto it = kernelIndex.find(name);
              return it == kernelIndex.end() ? nullptr
                                             : &program.kernels[it->second];
            })) {
      kernelIndex[kernel->name] = program.kernels.size();
      program.kernels.push_back(std::move(*kernel));
      understood[&stmt] = true;
      return;
    }
    if (stmt.targets.size() == 1 && stmt.targets[0]->kind == Expr::Name &&
        stmt.value) {
      std::string value = stmt.value->dotted();
      if (!value.empty())
        aliases[stmt.targets[0]->text] = value;
      if (stmt.value->kind == Expr::Call)
        if (const Expr *list = stmt.value->keyword("partitions"))
          for (const Expr *item : list->items)
            partitions.push_back(item->source.str());
      understood[&stmt] = true;
      return;
    }
    keep(stmt);
    return;
  case Stmt::Text:
    keep(stmt);
    countBoilerplate(stmt.body);
    return;
  default:
    understood[&stmt] = true;
    countBoilerplate(stmt.body);
    countBoilerplate(stmt.orelse);
  }
}

void Interpreter::readCallComments(const Stmt &stmt, Frame &frame) {
  for (const CommentLine &comment : stmt.leading) {
    StringRef text = comment.text;
    if (text.contains("Source Nodes: [")) {
      if (auto names = bracketAfter(text, "Source Nodes:"))
        frame.pending.sourceNodes = readNameList(*names);
      if (auto names = bracketAfter(text, "Original ATen:"))
        frame.pending.originalAten = readNameList(*names);
    } else if (size_t at = text.find("[Provenance debug handles]");
               at != StringRef::npos) {
      SmallVector<StringRef> parts;
      text.drop_front(at + 26).split(parts, ',');
      for (StringRef part : parts) {
        auto [kernel, handle] = part.trim().rsplit(':');
        int64_t number;
        if (!handle.getAsInteger(10, number))
          frame.pending.handles.push_back({kernel.str(), number});
      }
    }
  }
}

/// `a, b = args`: the inputs of the program, or of a function that it calls.
void Interpreter::unpackArguments(const Stmt &stmt, Frame &frame) {
  const Expr &target = *stmt.targets[0];
  ArrayRef<const Expr *> names =
      target.kind == Expr::Tuple || target.kind == Expr::List ? target.items
                                                              : stmt.targets;
  auto it = frame.values.find("args");
  if (it == frame.values.end()) {
    for (const Expr *name : names) {
      if (name->kind != Expr::Name)
        continue;
      program.inputs.push_back(name->text.str());
      auto info = inputInfo.find(name->text);
      Value value =
          newTensor(info == inputInfo.end() ? TensorInfo() : info->second);
      program.storages[value.storage].isInput = true;
      assign(*name, std::move(value), frame);
    }
    return;
  }
  Value list = it->second;
  if (list.kind == Value::List && names.size() == list.items.size()) {
    for (auto [name, item] : zip(names, list.items))
      assign(*name, item, frame);
    return;
  }
  for (const Expr *name : names)
    assign(*name, newTensor({}), frame);
}

bool Interpreter::runAssign(const Stmt &stmt, Frame &frame) {
  if (!stmt.value)
    return true;
  if (stmt.value->isName("args")) {
    unpackArguments(stmt, frame);
    return true;
  }
  // s77 = arg1_1
  if (stmt.value->kind == Expr::Name && stmt.targets.size() == 1 &&
      stmt.targets[0]->kind == Expr::Name)
    if (auto it = harnessSizes.find(stmt.value->text); it != harnessSizes.end())
      program.sizeHints[stmt.targets[0]->text.str()] = it->second;
  // ps0 = (-2) + s77
  if (stmt.targets.size() == 1 && stmt.targets[0]->kind == Expr::Name) {
    StringRef name = stmt.targets[0]->text;
    std::optional<int64_t> size = evaluateSize(*stmt.value, program.sizeHints);
    if (size)
      computedSizes[name] = *size;
    else
      computedSizes.erase(name);
  }
  bool known = true;
  Value value = evaluate(*stmt.value, frame, known);
  for (const Expr *target : stmt.targets)
    known &= assign(*target, value, frame);
  return known;
}

bool Interpreter::runReturn(const Stmt &stmt, Frame &frame) {
  if (!stmt.value) {
    frame.result = Value();
    return true;
  }
  bool known = true;
  Value value = evaluate(*stmt.value, frame, known);
  if (!frame.result)
    frame.result = std::move(value);
  return known;
}

bool Interpreter::runWith(const Stmt &stmt, Frame &frame) {
  bool known = true;
  for (const Expr *context : stmt.targets) {
    StringRef text = context->source;
    if (context->kind == Expr::Call)
      text = context->items[0]->source;
    if (!text.contains("DeviceGuard") && !text.contains("record_function") &&
        !text.contains("stream") && !text.contains("nvtx") &&
        !text.contains("profile"))
      known = false;
  }
  runBlock(stmt.body, frame);
  return known;
}

bool Interpreter::runIf(const Stmt &stmt, Frame &frame) {
  bool known = true;
  evaluate(*stmt.value, frame, known);
  bool outer = frame.conditional;
  frame.conditional = true;
  runBlock(stmt.body, frame);
  runBlock(stmt.orelse, frame);
  frame.conditional = outer;
  return known;
}

bool Interpreter::runLoop(const Stmt &stmt, Frame &frame) {
  bool known = true;
  bool outer = frame.inLoop;
  if (stmt.kind == Stmt::For) {
    evaluate(*stmt.value, frame, known);
    for (const Expr *target : stmt.targets)
      assign(*target, Value(), frame);
  }
  frame.inLoop = true;
  if (stmt.kind == Stmt::While)
    evaluate(*stmt.value, frame, known);
  runBlock(stmt.body, frame);
  frame.inLoop = outer;
  runBlock(stmt.orelse, frame);
  return known;
}

bool Interpreter::runStatement(const Stmt &stmt, Frame &frame) {
  readCallComments(stmt, frame);
  bool known = true;
  switch (stmt.kind) {
  case Stmt::Assign:
    return runAssign(stmt, frame);
  case Stmt::Return:
    return runReturn(stmt, frame);
  case Stmt::With:
    return runWith(stmt, frame);
  case Stmt::If:
    return runIf(stmt, frame);
  case Stmt::For:
  case Stmt::While:
    return runLoop(stmt, frame);
  case Stmt::ExprStmt:
  case Stmt::Assert:
    evaluate(*stmt.value, frame, known);
    return known;
  case Stmt::Function:
    functions[stmt.name] = &stmt;
    return true;
  case Stmt::Delete:
  case Stmt::Import:
  case Stmt::Pass:
    return true;
  case Stmt::Class:
    return false;
  case Stmt::Text:
    runBlock(stmt.body, frame);
    return false;
  }
  llvm_unreachable("every kind of statement is handled");
}

void Interpreter::runBlock(ArrayRef<const Stmt *> body, Frame &frame) {
  for (const Stmt *stmt : body) {
    spend(1);
    if (exhausted)
      return;
    if (runStatement(*stmt, frame))
      understood.try_emplace(stmt, true);
    else
      keep(*stmt);
  }
}

void Interpreter::runFunction(const Stmt &function, Frame &frame) {
  active.push_back(&function);
  spend(kCallWork);
  runBlock(function.body, frame);
  active.pop_back();
}

void Interpreter::readModule() {
  for (const Stmt *stmt : tree.statements())
    readModuleStatement(*stmt);
}

Expected<WrapperProgram> Interpreter::run() {
  Expected<SyntaxTree> parsed = parsePython(source, fileName);
  if (!parsed)
    return parsed.takeError();
  tree = std::move(*parsed);
  program.fileName = fileName.str();
  readModule();
  if (!entry)
    return createStringError(
        fileName +
        ": holds no function `call`: this is not the wrapper that Inductor "
        "writes. Expected output_code.py of a debug folder, or a module of "
        "Inductor's cache");
  Frame frame;
  frame.function = "call";
  runFunction(*entry, frame);
  if (frame.result)
    keepAlive(*frame.result);
  if (exhausted)
    return createStringError(
        fileName + ": following its calls gives more than " +
        Twine(kMaxLaunches) + " launches or " + Twine(kMaxWork) +
        " steps: the file is not one compiled graph");
  // Functions that nothing calls (another device's path) are read for the
  // count alone.
  for (const auto &function : functions)
    countBoilerplate(function.second->body);

  for (KernelDefinition &kernel : program.kernels)
    kernel.source = {};
  for (const auto &[stmt, known] : understood) {
    ++program.statements.total;
    ++(known ? program.statements.understood : program.statements.keptAsText);
  }
  for (WrapperLaunch &launch : program.launches)
    for (LaunchOperand &operand : launch.operands)
      if (operand.storage >= 0) {
        // Under another name the input was given up before: its memory is
        // used again, and nobody sees what is written.
        Storage &storage = program.storages[operand.storage];
        if (operand.role & KernelParameter::Output && !operand.isResult &&
            operand.name == storage.name)
          storage.isMutated = true;
        const TensorInfo &info = program.storages[operand.storage].info;
        if (!operand.info.shapeKnown) {
          operand.info.shape = info.shape;
          operand.info.stride = info.stride;
          operand.info.shapeKnown = info.shapeKnown;
        }
        if (operand.info.dtype.empty())
          operand.info.dtype = info.dtype;
        if (operand.info.device.empty())
          operand.info.device = info.device;
      }
  return std::move(program);
}

Expected<WrapperProgram> opprof::inductor::readWrapper(StringRef source,
                                                       StringRef fileName) {
  return Interpreter(source, fileName).run();
}
