// Short names for tensor types in what is printed for people.

#ifndef OPPROF_DIALECT_FX_IR_TYPEALIASES_H
#define OPPROF_DIALECT_FX_IR_TYPEALIASES_H

namespace opprof::fx {

/// While one lives, modules that this thread prints have tensor types as !t,
/// !t1, …, defined above them, instead of encodings as #cuda. For texts with
/// few types that a person is to edit, as rewrite scripts.
class ScopedTypeAliases {
public:
  ScopedTypeAliases();
  ~ScopedTypeAliases();
  ScopedTypeAliases(const ScopedTypeAliases &) = delete;
  ScopedTypeAliases &operator=(const ScopedTypeAliases &) = delete;

private:
  bool previous;
};

} // namespace opprof::fx

#endif // OPPROF_DIALECT_FX_IR_TYPEALIASES_H
