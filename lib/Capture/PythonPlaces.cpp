//===- PythonPlaces.cpp - Ids set by the interpreter's own events ---------===//
//
// What sys.monitoring calls when a followed function gets to a place or leaves.
// These are builtin functions, made here, because a Python function that calls
// this library through ctypes costs as much as some launches. CPython's stable
// ABI is found in the process: nothing of it is needed to build or load the
// library.
//
//===----------------------------------------------------------------------===//

#include "opprof/Capture/Capture.h"

#include "Session.h"

#include <dlfcn.h>
#include <span>
#include <sys/types.h>
#include <unordered_map>
#include <unordered_set>

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
           symbol(None, "_Py_NoneStruct") &&
           symbol(TypeError, "PyExc_TypeError");
  }
};

/// What a pair of callbacks knows. It never changes, so that any thread may
/// read it, and ends with the last of them.
struct Places {
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
  std::unordered_map<Key, uint64_t, Hash> Ids;
  std::unordered_set<const void *> Codes;
  PyObject *Disable = nullptr;

  static Places *of(PyObject *capsule) {
    return static_cast<Places *>(
        Python::get()->PyCapsule_GetPointer(capsule, nullptr));
  }
  static void destroy(PyObject *capsule) {
    Places *places = of(capsule);
    Python::get()->Py_DecRef(places->Disable);
    delete places;
  }
};

PyObject *counted(PyObject *object) {
  Python::get()->Py_IncRef(object);
  return object;
}

PyObject *typeError(const char *text) {
  const Python &python = *Python::get();
  python.PyErr_SetString(*python.TypeError, text);
  return nullptr;
}

PyObject *atPlace(PyObject *self, PyObject *const *arguments, ssize_t count) {
  const Python &python = *Python::get();
  if (count != 2)
    return typeError("at_place takes a code object and an offset");
  long offset = python.PyLong_AsLong(arguments[1]);
  if (offset == -1 && python.PyErr_Occurred())
    return nullptr;
  const Places &places = *Places::of(self);
  auto found = places.Ids.find({arguments[0], offset});
  if (found == places.Ids.end())
    return counted(places.Disable);
  IdStack::at(found->second);
  return counted(python.None);
}

PyObject *leave(PyObject *self, PyObject *const *arguments, ssize_t count) {
  if (count != 3)
    return typeError("leave takes a code object, an offset and a value");
  if (Places::of(self)->Codes.count(arguments[0]))
    IdStack::at(0);
  return counted(Python::get()->None);
}

MethodDef AtPlace = {"at_place", atPlace, kFastCall,
                     "at_place(code, offset): the thread gets to a place"};
MethodDef Leave = {"leave", leave, kFastCall,
                   "leave(code, offset, value): the thread leaves a function"};

} // namespace

void *opprof_python_callbacks(const opprof_place *places, size_t count,
                              void *disable) {
  const Python *python = Python::get();
  if (!python) {
    failWith(OPPROF_INVALID,
             "opprof_python_callbacks: no CPython in this process");
    return nullptr;
  }
  auto *table = new Places;
  for (const opprof_place &place : std::span(places, count)) {
    table->Ids[{place.code, long(place.offset)}] = place.id;
    table->Codes.insert(place.code);
  }
  table->Disable = counted(static_cast<PyObject *>(disable));
  PyObject *self = python->PyCapsule_New(table, nullptr, Places::destroy);
  if (!self) {
    python->Py_DecRef(table->Disable);
    delete table;
    return nullptr;
  }
  PyObject *both = nullptr;
  PyObject *at = python->PyCFunction_NewEx(&AtPlace, self, nullptr);
  PyObject *left = python->PyCFunction_NewEx(&Leave, self, nullptr);
  if (at && left)
    both = python->PyTuple_Pack(2, at, left);
  for (PyObject *object : {self, at, left})
    python->Py_DecRef(object);
  return both;
}
