// Where in a Python program a thread is, read from the interpreter's own
// frames. A walk from the innermost frame outwards follows one pointer a frame;
// what it meets is known by the addresses of code objects and modules, so that
// the texts of a place are made once. Nothing is installed in the interpreter:
// programs that trace, profile or compile their own frames run as they would.
//
// PyTorch lets go of the interpreter's lock before it runs most operators. A
// thread's own frames stay as they are meanwhile; the lock is taken for what is
// met for the first time only.

#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE
#include <Python.h>
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE

#include "opprof/Torch/Frames.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace {

using Frame = _PyInterpreterFrame;

/// Modules that enclose a call, at most; deeper ones are left out.
constexpr size_t kMostModules = 64;
/// Modules that are looked at to find one by its name.
constexpr size_t kMostVisited = 100'000;
/// Code objects that are held on to, so that no other takes their place.
constexpr size_t kMostCodes = 200'000;
/// Places and modules that are kept; a program that makes modules as it goes
/// has more, and what comes then has no place.
constexpr size_t kMostKept = 200'000;

} // namespace

//===----------------------------------------------------------------------===//
// Frames of the versions of CPython
//===----------------------------------------------------------------------===//

static const Frame *innermostFrame(const PyThreadState *thread) {
#if PY_VERSION_HEX >= 0x030D0000
  return thread->current_frame;
#else
  return thread->cframe ? thread->cframe->current_frame : nullptr;
#endif
}

static PyObject *codeOf(const Frame *frame) {
#if PY_VERSION_HEX >= 0x030D0000
  return frame->f_executable;
#else
  return reinterpret_cast<PyObject *>(frame->f_code);
#endif
}

static const _Py_CODEUNIT *instructionOf(const Frame *frame) {
#if PY_VERSION_HEX >= 0x030D0000
  return frame->instr_ptr;
#else
  return frame->prev_instr;
#endif
}

/// What a variable of the function holds; null where it holds nothing.
static PyObject *localOf(const Frame *frame, int index) {
  PyObject *value = frame->localsplus[index];
  return value && PyCell_Check(value) ? PyCell_GET(value) : value;
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

/// Whether the weak reference is still of that object.
static bool refersTo(PyObject *reference, PyObject *object) {
  return reinterpret_cast<PyWeakReference *>(reference)->wr_object == object;
}

namespace {

enum class CodeKind : uint8_t {
  Hidden, ///< PyTorch's or what it wrote, the standard library's, or made of
          ///< thin air
  User,
  ModuleCall,
  OptimizerStep,
  /// What PyTorch puts round an optimizer's step.
  OptimizerHook,
};

struct Code {
  PyObject *object = nullptr;
  CodeKind kind = CodeKind::Hidden;
  /// Of a step of an optimizer: its variable `group`. Of what is round it: the
  /// optimizer. Of a method of the program's: what it is called on.
  int variable = -1;
};

/// A module in one place of another. Kept for good: a path is a text.
struct Module {
  PyObject *object = nullptr;
  /// A weak reference, which tells whether `object` is still that module.
  PyObject *reference = nullptr;
  Module *parent = nullptr;
  std::string path;

  bool isAlive() const { return refersTo(reference, object); }
};

/// What a walk finds.
struct Walk {
  const Frame *user = nullptr;
  PyObject *group = nullptr;
  /// Whose group it is.
  PyObject *optimizer = nullptr;
  /// Innermost first.
  std::array<PyObject *, kMostModules> modules;
  size_t numModules = 0;

  size_t hash() const {
    size_t value = user ? size_t(instructionOf(user)) : 0;
    value = value * 31 + size_t(group);
    value = value * 31 + size_t(optimizer);
    for (size_t at = 0; at < numModules; ++at)
      value = value * 1000003 ^ size_t(modules[at]) >> 4;
    return value;
  }
};

struct Known {
  const _Py_CODEUNIT *instruction = nullptr;
  PyObject *group = nullptr;
  /// Whose group it is, and a weak reference, as for a module.
  PyObject *optimizer = nullptr, *optimizerReference = nullptr;
  /// Innermost first.
  std::vector<const Module *> modules;
  uint32_t number = OPPROF_NO_PLACE;

  /// Something that it is of is gone, so that no walk finds it again.
  bool isDead() const {
    if (optimizerReference && !refersTo(optimizerReference, optimizer))
      return true;
    for (const Module *module : modules)
      if (!module || !module->isAlive())
        return true;
    return false;
  }
  bool is(const Walk &walk) const {
    if (instruction != (walk.user ? instructionOf(walk.user) : nullptr) ||
        group != walk.group || optimizer != walk.optimizer ||
        modules.size() != walk.numModules)
      return false;
    for (size_t at = 0; at < modules.size(); ++at)
      if (!modules[at] || modules[at]->object != walk.modules[at])
        return false;
    return !isDead();
  }
};

/// Takes the interpreter's lock, whoever has it.
class Interpreter {
public:
  Interpreter() : state(PyGILState_Ensure()) {
    PyErr_Fetch(&type, &value, &trace);
  }
  ~Interpreter() {
    // What an operator is called with may be an error that is being handled.
    PyErr_Restore(type, value, trace);
    PyGILState_Release(state);
  }
  Interpreter(const Interpreter &) = delete;
  Interpreter &operator=(const Interpreter &) = delete;

private:
  PyGILState_STATE state;
  PyObject *type, *value, *trace;
};

class Places {
public:
  static Places &get() {
    static Places *places = new Places;
    return *places;
  }

  PyObject *moduleCall = nullptr;
  std::vector<std::string> hidden;

  uint32_t find(const Frame *frame, const void *until);
  /// Asks the interpreter, under its lock.
  Code codeOf(PyObject *object);
  /// Whether the object is a module that has been called, under its lock.
  bool isCalledModule(PyObject *object);
  /// Changes when another module has been called.
  std::atomic<uint32_t> numCalled{0};

private:
  Code classify(PyObject *object) const;
  bool isHidden(const char *file) const;
  const Known &add(const Walk &walk);
  Module *moduleOf(Module *parent, PyObject *object);
  void numberOutermost(Module &module);
  std::string groupOf(const Walk &walk) const;

  // All below is of the thread that holds the interpreter's lock.
  std::unordered_map<PyObject *, Code> codes;
  std::deque<Module> modules;
  std::unordered_map<PyObject *, std::vector<Module *>> byObject;
  /// By the name of their class, in the order of their numbers.
  std::unordered_map<std::string, std::vector<const Module *>> outermost;
  std::deque<Known> known;
  std::unordered_multimap<size_t, const Known *> byHash;
};

/// What a thread met last, by address.
class Cache {
public:
  Code codeOf(PyObject *object) {
    size_t slot = (size_t(object) >> 4) * 0x9E3779B97F4A7C15u >> 48;
    for (size_t probe = 0; probe < kProbes; ++probe) {
      Code &last = codes[(slot + probe) % codes.size()];
      if (last.object == object)
        return last;
      if (!last.object)
        return last = Places::get().codeOf(object);
    }
    return codes[slot % codes.size()] = Places::get().codeOf(object);
  }
  const Known *&lastOf(size_t hash) { return known[hash % known.size()]; }

  /// Whether an object was no module that has been called, while no other was.
  bool isNoModule(PyObject *object, uint32_t numCalled) const {
    const NoModule &last = noModules[slotOf(object)];
    return last.object == object && last.numCalled == numCalled;
  }
  void addNoModule(PyObject *object, uint32_t numCalled) {
    noModules[slotOf(object)] = {object, numCalled};
  }

private:
  struct NoModule {
    PyObject *object = nullptr;
    uint32_t numCalled = 0;
  };
  static size_t slotOf(PyObject *object) {
    return (size_t(object) >> 4) * 0x9E3779B97F4A7C15u >> 58;
  }
  std::array<NoModule, 64> noModules;
  /// Two codes of one stack may not push each other out.
  static constexpr size_t kProbes = 8;
  std::array<Code, 2048> codes;
  std::array<const Known *, 4096> known{};
};

} // namespace

/// This thread's, or null: one load, where a thread-local object costs calls.
[[gnu::tls_model(
    "initial-exec")]] static constinit thread_local Cache *thisCache = nullptr;

/// Null at the thread's end.
static Cache *makeCache() {
  struct Owner {
    std::unique_ptr<Cache> cache = std::make_unique<Cache>();
    ~Owner() {
      thisCache = nullptr;
      cache = nullptr;
    }
  };
  thread_local Owner owner;
  return thisCache = owner.cache.get();
}

static const char *textOf(PyObject *object) {
  const char *text =
      object && PyUnicode_Check(object) ? PyUnicode_AsUTF8(object) : nullptr;
  PyErr_Clear();
  return text ? text : "";
}

/// Whether Inductor wrote the file: it exports the folder that it writes to.
static bool isGenerated(const char *file) {
  const char *folder = std::getenv("TORCHINDUCTOR_CACHE_DIR");
  size_t length = folder ? std::strlen(folder) : 0;
  while (length && folder[length - 1] == '/')
    --length;
  return length && !std::strncmp(file, folder, length) && file[length] == '/';
}

bool Places::isHidden(const char *file) const {
  // Made by fx and by the import system; what a person types is <stdin>.
  if (file[0] == '<' && std::strncmp(file, "<stdin", 6) != 0 &&
      std::strncmp(file, "<ipython", 8) != 0)
    return true;
  if (isGenerated(file))
    return true;
  for (const std::string &folder : hidden)
    if (!std::strncmp(file, folder.c_str(), folder.size()) &&
        !std::strstr(file + folder.size(), "-packages/"))
      return true;
  return false;
}

Code Places::classify(PyObject *object) const {
  Code code;
  code.object = object;
  if (object == moduleCall) {
    code.kind = CodeKind::ModuleCall;
    return code;
  }
  if (!PyCode_Check(object))
    return code;
  auto *of = reinterpret_cast<PyCodeObject *>(object);
  const char *file = textOf(of->co_filename);
  if (!isHidden(file)) {
    code.kind = CodeKind::User;
    if (of->co_argcount) {
      PyObject *names = PyCode_GetVarnames(of);
      if (names && !std::strcmp(textOf(PyTuple_GET_ITEM(names, 0)), "self"))
        code.variable = 0;
      Py_XDECREF(names);
      PyErr_Clear();
    }
    return code;
  }
  bool isStep = !std::strcmp(textOf(of->co_name), "step") &&
                std::strstr(file, "/torch/optim/");
  bool isHook = !std::strcmp(textOf(of->co_name), "wrapper") &&
                std::strstr(file, "/torch/optim/optimizer.py");
  if (!isStep && !isHook)
    return code;
  PyObject *names = PyCode_GetVarnames(of);
  for (Py_ssize_t at = 0; names && at < PyTuple_GET_SIZE(names); ++at)
    if (!std::strcmp(textOf(PyTuple_GET_ITEM(names, at)),
                     isStep ? "group" : "self")) {
      code.kind = isStep ? CodeKind::OptimizerStep : CodeKind::OptimizerHook;
      code.variable = int(at);
    }
  Py_XDECREF(names);
  PyErr_Clear();
  return code;
}

Code Places::codeOf(PyObject *object) {
  Interpreter lock;
  auto [it, isNew] = codes.try_emplace(object);
  if (isNew)
    it->second = classify(object);
  Code code = it->second;
  if (isNew && codes.size() < kMostCodes)
    Py_INCREF(object);
  else if (isNew) {
    // Another may take its place: it is looked at each time.
    code.object = nullptr;
    codes.erase(it);
  }
  return code;
}

/// "h.3.attn" where `child` is below `module` so; empty where it is not.
static std::string nameBelow(PyObject *module, PyObject *child) {
  struct Entry {
    PyObject *module;
    std::string path;
  };
  std::deque<Entry> queue{{module, ""}};
  std::unordered_set<PyObject *> seen;
  while (!queue.empty() && seen.size() < kMostVisited) {
    Entry entry = std::move(queue.front());
    queue.pop_front();
    // Modules are held by those that they are in.
    PyObject *own = PyObject_GenericGetDict(entry.module, nullptr);
    PyObject *list = own ? PyDict_GetItemString(own, "_modules") : nullptr;
    PyObject *key, *value;
    Py_ssize_t at = 0;
    while (list && PyDict_Check(list) && PyDict_Next(list, &at, &key, &value)) {
      std::string path =
          entry.path + (entry.path.empty() ? "" : ".") + textOf(key);
      if (value == child) {
        Py_XDECREF(own);
        return path;
      }
      if (value != Py_None && seen.insert(value).second)
        queue.push_back({value, std::move(path)});
    }
    Py_XDECREF(own);
    PyErr_Clear();
  }
  return "";
}

/// "Sequential#2": a critic beside a generator, a target beside what learns.
/// The numbers of those that are gone are given again, so that what is made
/// anew for each step has one name.
void Places::numberOutermost(Module &module) {
  // Called directly and by what wraps it, or by several wrappers.
  for (const Module *known : byObject[module.object])
    if (known->isAlive() && known->path.find('.') == std::string::npos &&
        !known->path.empty()) {
      module.path = known->path;
      return;
    }
  std::vector<const Module *> &others = outermost[module.path];
  size_t number = 0;
  while (number < others.size() && others[number]->isAlive())
    ++number;
  if (number == others.size())
    others.push_back(nullptr);
  others[number] = &module;
  if (number)
    module.path += "#" + std::to_string(number + 1);
}

Module *Places::moduleOf(Module *parent, PyObject *object) {
  std::vector<Module *> &same = byObject[object];
  // Of modules that were at that address before.
  std::erase_if(same, [](Module *module) { return !module->isAlive(); });
  for (Module *module : same)
    // What is called without the module that it is in, as checkpointing does,
    // is known by the path that it was first called by.
    if (module->isAlive() && (module->parent == parent || !parent))
      return module;
  if (modules.size() >= kMostKept)
    return nullptr;
  PyObject *reference = PyWeakref_NewRef(object, nullptr);
  PyErr_Clear();
  if (!reference)
    return nullptr;
  Module &module = modules.emplace_back();
  numCalled.fetch_add(1, std::memory_order_relaxed);
  module.object = object;
  module.reference = reference;
  module.parent = parent;
  const char *type = Py_TYPE(object)->tp_name;
  if (const char *dot = std::strrchr(type, '.'))
    type = dot + 1;
  module.path = type;
  // torch.compile's is the module that it was made of.
  bool isWrapper = !std::strcmp(type, "OptimizedModule");
  if (parent && parent->path.empty() && parent->parent)
    parent = parent->parent;
  if (parent && !parent->path.empty()) {
    std::string name = nameBelow(parent->object, object);
    module.path = parent->path + "." + (name.empty() ? type : name);
  }
  if (isWrapper)
    module.path = parent ? parent->path : "";
  else if (!parent || parent->path.empty())
    numberOutermost(module);
  same.push_back(&module);
  return &module;
}

bool Places::isCalledModule(PyObject *object) {
  Interpreter lock;
  auto found = byObject.find(object);
  if (found == byObject.end())
    return false;
  for (const Module *module : found->second)
    if (module->isAlive())
      return true;
  return false;
}

/// "AdamW group 1": the optimizer, and which of its groups is stepped.
std::string Places::groupOf(const Walk &walk) const {
  PyObject *optimizer = walk.optimizer;
  if (!optimizer)
    return "";
  const char *type = Py_TYPE(optimizer)->tp_name;
  if (const char *dot = std::strrchr(type, '.'))
    type = dot + 1;
  std::string text = type;
  PyObject *own = PyObject_GenericGetDict(optimizer, nullptr);
  PyObject *groups = own ? PyDict_GetItemString(own, "param_groups") : nullptr;
  if (groups && PyList_Check(groups))
    for (Py_ssize_t at = 0; at < PyList_GET_SIZE(groups); ++at)
      if (PyList_GET_ITEM(groups, at) == walk.group)
        text += " group " + std::to_string(at);
  Py_XDECREF(own);
  PyErr_Clear();
  return text;
}

const Known &Places::add(const Walk &walk) {
  Interpreter lock;
  size_t hash = walk.hash();
  auto [begin, end] = byHash.equal_range(hash);
  for (auto it = begin; it != end;) {
    if (it->second->is(walk))
      return *it->second;
    it = it->second->isDead() ? byHash.erase(it) : std::next(it);
  }
  if (known.size() >= kMostKept) {
    static const Known beyond;
    return beyond;
  }
  Known &place = known.emplace_back();
  place.instruction = walk.user ? instructionOf(walk.user) : nullptr;
  place.group = walk.group;
  place.optimizer = walk.optimizer;
  if (place.optimizer) {
    place.optimizerReference = PyWeakref_NewRef(place.optimizer, nullptr);
    PyErr_Clear();
  }
  Module *module = nullptr;
  place.modules.resize(walk.numModules);
  for (size_t at = walk.numModules; at-- > 0;) {
    Module *inner = moduleOf(module, walk.modules[at]);
    module = inner ? inner : module;
    place.modules[at] = module;
  }
  const char *file = "", *function = "";
  int line = 0;
  if (walk.user) {
    auto *code = reinterpret_cast<PyCodeObject *>(::codeOf(walk.user));
    file = textOf(code->co_filename);
    function = textOf(code->co_name);
    auto offset = int((instructionOf(walk.user) - _PyCode_CODE(code)) *
                      Py_ssize_t(sizeof(_Py_CODEUNIT)));
    line = std::max(PyCode_Addr2Line(code, offset), 0);
  }
  place.number = opprof_observer_add_place(module ? module->path.c_str() : "",
                                           file, function, uint32_t(line),
                                           groupOf(walk).c_str());
  byHash.emplace(hash, &place);
  return place;
}

uint32_t Places::find(const Frame *frame, const void *until) {
  Cache *cache = thisCache ? thisCache : makeCache();
  if (!cache)
    return OPPROF_NO_PLACE;
  Walk walk;
  // What the program's own functions on the way are methods of, innermost
  // first; some more than that are none of an optimizer's.
  std::array<PyObject *, 16> selves;
  size_t numSelves = 0;
  // What the innermost method is called on.
  PyObject *self = nullptr;
  // A step is given a function that runs the model (LBFGS, Lightning): what
  // that does is none of the optimizer's. One that is no optimizer of PyTorch's
  // has a step of the user's own, a method.
  auto isClosure = [&](PyObject *optimizer) {
    if (walk.numModules)
      return true;
    for (size_t at = 0; at < numSelves; ++at)
      if (selves[at] == optimizer)
        return false;
    return walk.user != nullptr;
  };
  for (; frame && frame != until; frame = frame->previous) {
    PyObject *object = ::codeOf(frame);
    if (!object)
      continue;
    const Code &code = cache->codeOf(object);
    switch (code.kind) {
    case CodeKind::Hidden:
      break;
    case CodeKind::User:
      walk.user = walk.user ? walk.user : frame;
      if (reinterpret_cast<PyCodeObject *>(object)->co_argcount &&
          numSelves < selves.size())
        selves[numSelves++] = localOf(frame, 0);
      if (!self && code.variable == 0) {
        self = localOf(frame, 0);
        // Where a function within the method uses it too.
        if (self && PyCell_Check(self))
          self = PyCell_GET(self);
      }
      break;
    case CodeKind::ModuleCall:
      if (PyObject *module = localOf(frame, 0);
          module && walk.numModules < kMostModules)
        walk.modules[walk.numModules++] = module;
      break;
    case CodeKind::OptimizerStep:
      if (PyObject *optimizer = localOf(frame, 0);
          !walk.group && !isClosure(optimizer)) {
        walk.group = localOf(frame, code.variable);
        walk.optimizer = optimizer;
      }
      break;
    case CodeKind::OptimizerHook:
      if (PyObject *optimizer = localOf(frame, code.variable);
          !walk.optimizer && !isClosure(optimizer))
        walk.optimizer = optimizer;
      break;
    }
  }
  if (!walk.user && !walk.numModules && !walk.optimizer)
    return OPPROF_NO_PLACE;
  // A checkpoint computes a method again without a call of its module.
  uint32_t numCalled = this->numCalled.load(std::memory_order_relaxed);
  bool mayBeModule = self && !walk.numModules && !walk.optimizer &&
                     !cache->isNoModule(self, numCalled);
  if (mayBeModule)
    walk.modules[walk.numModules++] = self;
  const Known **last = &cache->lastOf(walk.hash());
  if (mayBeModule && !(*last && (*last)->is(walk)) && !isCalledModule(self)) {
    // Objects of all kinds come and go: they are no places.
    cache->addNoModule(self, numCalled);
    walk.numModules = 0;
    last = &cache->lastOf(walk.hash());
  }
  if (!*last || !(*last)->is(walk))
    *last = &add(walk);
  return (*last)->number;
}

static const Frame *currentFrame() {
  const PyThreadState *thread = PyGILState_GetThisThreadState();
  return thread ? innermostFrame(thread) : nullptr;
}

static const void *frameOfThread() { return currentFrame(); }

static bool isFinalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing();
#else
  return _Py_IsFinalizing();
#endif
}

static uint32_t placeOfThread(const void *frame, const void *until) {
  if (isFinalizing())
    return OPPROF_NO_PLACE;
  return Places::get().find(static_cast<const Frame *>(frame), until);
}

const char *opprof_frames_start(void *moduleCall, const char *const *hidden,
                                size_t count) {
  auto *code = static_cast<PyObject *>(moduleCall);
  if (!PyCode_Check(code))
    return "the call of nn.Module is no function of Python";
  if ((Py_Version >> 16) != (PY_VERSION_HEX >> 16))
    return "it was built for another version of Python";
  Py_INCREF(code);
  Places &places = Places::get();
  places.moduleCall = code;
  places.hidden.assign(hidden, hidden + count);
  return nullptr;
}

const opprof_place_source *opprof_frames_source(void) {
  static const opprof_place_source source{frameOfThread, placeOfThread};
  return Places::get().moduleCall ? &source : nullptr;
}
