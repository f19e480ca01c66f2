// Ids set by the interpreter's own events. What sys.monitoring calls when a
// followed function gets to a place or leaves. These are builtin functions,
// made here, because a Python function that calls this library through ctypes
// costs as much as some launches. CPython's stable ABI is found in the process:
// nothing of it is needed to build or load the library.

#include "opprof/Capture/Capture.h"

#include "Session.h"

#include <atomic>
#include <dlfcn.h>
#include <memory>
#include <span>
#include <sys/types.h>
#include <unordered_map>
#include <unordered_set>
#include <vector>

using namespace opprof::capture;

namespace {
/// Never looked into.
struct PyObject;

using FastFunction = PyObject *(*)(PyObject * self, PyObject *const *arguments,
                                   ssize_t count);

/// PyMethodDef, whose layout the stable ABI fixes.
struct MethodDef {
  const char *name;
  FastFunction function;
  int flags;
  const char *doc;
};
constexpr int kFastCall = 0x80; // METH_FASTCALL

struct Python {
  void (*Py_IncRef)(PyObject *);
  void (*Py_DecRef)(PyObject *);
  long (*PyLong_AsLong)(PyObject *);
  PyObject *(*PyErr_Occurred)();
  void (*PyErr_SetString)(PyObject *type, const char *text);
  PyObject *(*PyCapsule_New)(void *pointer, const char *name,
                             void (*destroy)(PyObject *));
  void *(*PyCapsule_GetPointer)(PyObject *capsule, const char *name);
  PyObject *(*PyCFunction_NewEx)(MethodDef *method, PyObject *self,
                                 PyObject *module);
  PyObject *(*PyTuple_Pack)(ssize_t count, ...);
  PyObject *(*PyObject_CallFunctionObjArgs)(PyObject *function, ...);
  PyObject *None;
  PyObject **TypeError;

  /// Null where this process has no CPython whose symbols can be seen.
  static const Python *get() {
    static Python python;
    static const bool found = python.find();
    return found ? &python : nullptr;
  }

private:
  template <typename T> static bool symbol(T &target, const char *name) {
    target = reinterpret_cast<T>(::dlsym(RTLD_DEFAULT, name));
    return target != nullptr;
  }
  bool find() {
    return symbol(Py_IncRef, "Py_IncRef") && symbol(Py_DecRef, "Py_DecRef") &&
           symbol(PyLong_AsLong, "PyLong_AsLong") &&
           symbol(PyErr_Occurred, "PyErr_Occurred") &&
           symbol(PyErr_SetString, "PyErr_SetString") &&
           symbol(PyCapsule_New, "PyCapsule_New") &&
           symbol(PyCapsule_GetPointer, "PyCapsule_GetPointer") &&
           symbol(PyCFunction_NewEx, "PyCFunction_NewEx") &&
           symbol(PyTuple_Pack, "PyTuple_Pack") &&
           symbol(PyObject_CallFunctionObjArgs,
                  "PyObject_CallFunctionObjArgs") &&
           symbol(None, "_Py_NoneStruct") &&
           symbol(TypeError, "PyExc_TypeError");
  }
};

} // namespace

static PyObject *counted(PyObject *object) {
  Python::get()->Py_IncRef(object);
  return object;
}

namespace {
/// What a pair of callbacks knows. It never changes, so that any thread may
/// read it, and ends with the last of them.
class Places {
public:
  struct Place {
    uint64_t id;
    PyObject *path;
  };

  Places(std::span<const opprof_place> places,
         const opprof_python_objects &objects)
      : Disable(hold(objects.disable)), Move(hold(objects.move)),
        Outside(hold(objects.outside)) {
    static std::atomic<uint64_t> last{0};
    Number = ++last;
    for (const opprof_place &place : places) {
      Known[{place.code, long(place.offset)}] = {place.id, hold(place.path)};
      Codes.insert(place.code);
    }
  }
  ~Places() {
    for (PyObject *object : Held)
      Python::get()->Py_DecRef(object);
  }

  const Place *find(const void *code, long offset) const {
    auto found = Known.find({code, offset});
    return found == Known.end() ? nullptr : &found->second;
  }
  bool follows(const void *code) const { return Codes.count(code) != 0; }
  PyObject *disable() const { return Disable; }

  /// Takes the thread to a place, or out of all with null. False where `move`
  /// raised.
  bool moveTo(const Place *place) const {
    IdStack::at(place ? place->id : 0);
    if (!Move)
      return true;
    // The path that the thread is on, and who took it there: it may be followed
    // by several pairs, whose paths end up in the same place.
    static thread_local constinit struct {
      uint64_t number;
      PyObject *path;
    } here{};
    PyObject *path = place ? place->path : Outside;
    if (here.number == Number && here.path == path)
      return true;
    here.number = 0;
    PyObject *result =
        Python::get()->PyObject_CallFunctionObjArgs(Move, path, nullptr);
    if (!result)
      return false;
    Python::get()->Py_DecRef(result);
    here = {Number, path};
    return true;
  }

  static Places *of(PyObject *capsule) {
    return static_cast<Places *>(
        Python::get()->PyCapsule_GetPointer(capsule, nullptr));
  }

private:
  struct Key {
    const void *code;
    long offset;
    bool operator==(const Key &) const = default;
  };
  struct Hash {
    size_t operator()(const Key &key) const {
      return reinterpret_cast<uintptr_t>(key.code) / 16 + size_t(key.offset);
    }
  };

  PyObject *hold(void *object) {
    if (object)
      Held.push_back(counted(static_cast<PyObject *>(object)));
    return static_cast<PyObject *>(object);
  }

  std::vector<PyObject *> Held;
  std::unordered_map<Key, Place, Hash> Known;
  std::unordered_set<const void *> Codes;
  PyObject *Disable, *Move, *Outside;
  uint64_t Number;
};

} // namespace

static PyObject *typeError(const char *text) {
  const Python &python = *Python::get();
  python.PyErr_SetString(*python.TypeError, text);
  return nullptr;
}

static PyObject *none(bool good) {
  return good ? counted(Python::get()->None) : nullptr;
}

static PyObject *atPlace(PyObject *self, PyObject *const *arguments,
                         ssize_t count) {
  const Python &python = *Python::get();
  if (count != 2)
    return typeError("at_place takes a code object and an offset");
  long offset = python.PyLong_AsLong(arguments[1]);
  if (offset == -1 && python.PyErr_Occurred())
    return nullptr;
  const Places &places = *Places::of(self);
  const Places::Place *place = places.find(arguments[0], offset);
  return place ? none(places.moveTo(place)) : counted(places.disable());
}

static PyObject *leave(PyObject *self, PyObject *const *arguments,
                       ssize_t count) {
  if (count != 3)
    return typeError("leave takes a code object, an offset and a value");
  const Places &places = *Places::of(self);
  return none(!places.follows(arguments[0]) || places.moveTo(nullptr));
}

namespace {
MethodDef AtPlace = {"at_place", atPlace, kFastCall,
                     "at_place(code, offset): the thread gets to a place"};
MethodDef Leave = {"leave", leave, kFastCall,
                   "leave(code, offset, value): the thread leaves a function"};
} // namespace

void *opprof_python_callbacks(const opprof_place *places, size_t count,
                              const opprof_python_objects *objects) {
  const Python *python = Python::get();
  if (!python) {
    failWith(OPPROF_INVALID,
             "opprof_python_callbacks: no CPython in this process");
    return nullptr;
  }
  auto table = std::make_unique<Places>(std::span(places, count), *objects);
  PyObject *self =
      python->PyCapsule_New(table.get(), nullptr, [](PyObject *capsule) {
        delete Places::of(capsule);
      });
  if (!self)
    return nullptr;
  table.release();
  PyObject *both = nullptr;
  PyObject *at = python->PyCFunction_NewEx(&AtPlace, self, nullptr);
  PyObject *left = python->PyCFunction_NewEx(&Leave, self, nullptr);
  if (at && left)
    both = python->PyTuple_Pack(2, at, left);
  for (PyObject *object : {self, at, left})
    python->Py_DecRef(object);
  return both;
}
