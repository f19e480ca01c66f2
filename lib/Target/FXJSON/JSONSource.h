// The text of a document as it is read: JSON piece by piece, with errors that
// name the place. Functions that return a truth value return false after an
// error, others null.

#ifndef OPPROF_LIB_TARGET_FXJSON_JSONSOURCE_H
#define OPPROF_LIB_TARGET_FXJSON_JSONSOURCE_H

#include "JSONLexer.h"

#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/StringSaver.h"

namespace opprof::fx {

class JSONSource {
public:
  /// `describePlace` says of an error which part of the document it is in, such
  /// as "graph 'g', node 'a'"; the key is added to it.
  JSONSource(llvm::StringRef text, llvm::StringRef fileName,
             mlir::MLIRContext *context,
             std::function<std::string()> describePlace)
      : lexer(text), text(text), fileName(fileName), context(context),
        describePlace(std::move(describePlace)) {}

  // Errors, at the place where the lexer is.
  bool fail(const llvm::Twine &what) {
    return failAt(lexer.getPlace(), where(), what);
  }
  bool failAt(const char *place, llvm::StringRef where,
              const llvm::Twine &what);
  /// Says what the lexer stopped at.
  bool failSyntax();
  bool expected(llvm::StringRef what) {
    return lexer.expected(what) || failSyntax();
  }
  /// Says what comes instead of `what`.
  bool unexpected(llvm::StringRef what);
  bool hugeInteger(llvm::StringRef digits);
  /// The place, as errors begin with it.
  std::string where() const;

  /// Reads an object, and calls `each` with every key, to read the key's value.
  template <typename Each> bool forEachMember(Each each) {
    if (!lexer.consume('{'))
      return unexpected("an object");
    if (lexer.consume('}'))
      return true;
    do {
      llvm::StringRef key;
      if (!lexer.readString(key))
        return failSyntax();
      if (!lexer.consume(':'))
        return expected("':'");
      if (!each(key))
        return false;
    } while (lexer.consume(','));
    return lexer.consume('}') || expected("',' or '}'");
  }
  /// Reads an array, and calls `each` to read every element.
  template <typename Each> bool forEachElement(Each each) {
    if (!lexer.consume('['))
      return unexpected("an array");
    if (lexer.consume(']'))
      return true;
    do {
      if (!each())
        return false;
    } while (lexer.consume(','));
    return lexer.consume(']') || expected("',' or ']'");
  }
  /// A string that holds until the next one is read.
  bool readString(llvm::StringRef &value);
  /// A string that holds as long as the text.
  bool readText(llvm::StringRef &value);
  bool readInteger(int64_t &value);
  /// The value of a key that the format does not have.
  bool skipUnknown(llvm::StringRef key);
  /// Whether this is the first key of its name that the format does not have.
  bool isNewUnknown(llvm::StringRef key) {
    return unknownKeys.insert(key).second;
  }
  void warn(const llvm::Twine &what);

  llvm::StringRef save(llvm::StringRef value) {
    return lexer.isView(value) ? value : saver.save(value);
  }

  JSONLexer lexer;
  /// The key whose value is being read; empty where it has none.
  llvm::StringRef keyName;

private:
  mlir::Location getFilePlace(const char *place, llvm::StringRef &prefix,
                              std::string &storage) const;

  llvm::StringRef text;
  llvm::StringRef fileName;
  mlir::MLIRContext *context;
  std::function<std::string()> describePlace;
  llvm::StringSet<> unknownKeys;
  llvm::BumpPtrAllocator allocator;
  llvm::StringSaver saver{allocator};
};

} // namespace opprof::fx

#endif // OPPROF_LIB_TARGET_FXJSON_JSONSOURCE_H
