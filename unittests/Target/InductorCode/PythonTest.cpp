// The tokenizer and parser, on every kind of token and statement that
// generated wrappers hold, and on what they must survive.

#include "opprof/Target/InductorCode/PythonParser.h"

#include "gtest/gtest.h"

#include <functional>

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;

static std::vector<std::pair<Token::Kind, std::string>> lex(StringRef source) {
  std::vector<std::pair<Token::Kind, std::string>> out;
  Lexer lexer(source);
  for (Token token = lexer.next();; token = lexer.next()) {
    out.push_back({token.kind, token.is(Token::Error) ? lexer.error().str()
                                                      : token.text.str()});
    if (token.is(Token::End) || token.is(Token::Error))
      return out;
  }
}

static std::string lexError(StringRef source) {
  auto tokens = lex(source);
  return tokens.back().first == Token::Error ? tokens.back().second : "";
}

namespace {
TEST(Lexer, StringsOfEveryKind) {
  for (StringRef literal :
       {"'a'", "\"a\"", "'''a\n'b'\n'''", "\"\"\"a\"b\"\"\"", "r'\\'", "b'x'",
        "rb'x'", "f'{x}'", "R'''\n'''", "'\\''", "'a\\\nb'", "''", "''''''"}) {
    if (literal == "r'\\'")
      continue; // A raw string can't end in a backslash either.
    auto tokens = lex(literal);
    ASSERT_EQ(tokens.size(), 3u) << literal.str();
    EXPECT_EQ(tokens[0].first, Token::String) << literal.str();
    EXPECT_EQ(tokens[0].second, literal) << literal.str();
  }
}

TEST(Lexer, LinesAreCountedThroughStringsAndBrackets) {
  Lexer lexer("a = '''\n\n''' + (1,\n 2) \\\n + b\nc\n");
  uint32_t line = 0;
  for (Token token = lexer.next(); !token.is(Token::End); token = lexer.next())
    if (token.isName("b") || token.isName("c"))
      line = line * 100 + token.line;
  EXPECT_EQ(line, 506u);
}

TEST(Lexer, IndentationAndComments) {
  auto tokens = lex("if x:\n  # note\n\n  y\nz\n");
  std::vector<Token::Kind> kinds;
  for (auto &[kind, text] : tokens)
    kinds.push_back(kind);
  EXPECT_EQ(kinds,
            (std::vector<Token::Kind>{
                Token::Name, Token::Name, Token::Op, Token::Newline,
                Token::Comment, Token::Indent, Token::Name, Token::Newline,
                Token::Dedent, Token::Name, Token::Newline, Token::End}));
}

TEST(Lexer, LongestOperatorAndNumbers) {
  auto tokens = lex("a**=1_000//0x1F != 1.5e-3j -> .5 ... 1. :=");
  std::vector<std::string> texts;
  for (auto &[kind, text] : tokens)
    texts.push_back(text);
  texts.resize(texts.size() - 2);
  EXPECT_EQ(texts, (std::vector<std::string>{"a", "**=", "1_000", "//", "0x1F",
                                             "!=", "1.5e-3j", "->", ".5", "...",
                                             "1.", ":="}));
}

TEST(Lexer, ErrorsNameTheLine) {
  EXPECT_EQ(lexError("a\nb = 'x\n"), "line 2: a string has no closing '");
  EXPECT_NE(lexError("a\nb = '''x\n\n").find("line 2: the string that starts"),
            std::string::npos);
  EXPECT_NE(lexError("f(\n[1,\n").find("line 2: the \"[\" that opens here"),
            std::string::npos);
  EXPECT_EQ(lexError("a)"), "line 1: \")\" closes no bracket");
  EXPECT_EQ(lexError("(a]"), "line 1: \"]\" closes no bracket");
  EXPECT_EQ(lexError("if x:\n    y\n  z\n"),
            "line 3: the indentation matches no outer block");
  EXPECT_NE(lexError(StringRef("a\0b", 3)).find("starts no token"),
            std::string::npos);
  EXPECT_EQ(lexError("\xEF\xBB\xBF"
                     "a = 1\r\nb = 2\r\n"),
            "");
}

TEST(Lexer, Decoding) {
  EXPECT_EQ(decodeString("'a\\n\\t\\\\\\'\\x41\\u00e9\\N'"),
            "a\n\t\\'A\xC3\xA9\\N");
  EXPECT_EQ(decodeString("r'a\\n'"), "a\\n");
  EXPECT_EQ(decodeString("'''a\\\nb'''"), "ab");
  EXPECT_EQ(decodeString("'\\101\\0'"), std::string("A\0", 2));
  EXPECT_EQ(decodeString("'\\ud800\\xZZ'"), "?\\xZZ");
  EXPECT_EQ(stringBody("f\"\"\"x\"\"\""), "x");
}

class ParserTest : public ::testing::Test {
protected:
  ArrayRef<const Stmt *> parse(StringRef source) {
    text = source.str();
    Expected<SyntaxTree> parsed = parsePython(text, "t.py");
    if (!parsed) {
      error = toString(parsed.takeError());
      return {};
    }
    tree = std::move(*parsed);
    return tree.statements();
  }

  const Expr *expression(StringRef source) {
    text = source.str();
    return parseExpression(text, arena);
  }

  std::string text, error;
  SyntaxTree tree;
  BumpPtrAllocator arena;
};

TEST_F(ParserTest, CallWithKeywords) {
  const Expr *call = expression(
      "extern_kernels.addmm(a, reinterpret_tensor(b, (4, 8), (1, 4), 0), "
      "alpha=1, out=buf0)");
  ASSERT_TRUE(call);
  EXPECT_EQ(call->kind, Expr::Call);
  EXPECT_EQ(call->items[0]->dotted(), "extern_kernels.addmm");
  ASSERT_EQ(call->positional().size(), 2u);
  EXPECT_EQ(call->positional()[1]->items[2]->kind, Expr::Tuple);
  ASSERT_TRUE(call->keyword("out"));
  EXPECT_EQ(call->keyword("out")->text, "buf0");
  EXPECT_FALSE(call->keyword("beta"));
}

TEST_F(ParserTest, PrecedenceAndShapes) {
  auto shape = [&](StringRef source) {
    std::function<std::string(const Expr *)> print =
        [&](const Expr *e) -> std::string {
      if (!e)
        return "-";
      if (e->kind == Expr::Binary)
        return "(" + print(e->items[0]) + e->text.str() + print(e->items[1]) +
               ")";
      if (e->kind == Expr::Unary)
        return "(" + e->text.str() + print(e->items[0]) + ")";
      return e->source.str();
    };
    return print(expression(source));
  };
  EXPECT_EQ(shape("a + b * c ** -d"), "(a+(b*(c**(-d))))");
  EXPECT_EQ(shape("a - b - c"), "((a-b)-c)");
  EXPECT_EQ(shape("not a == b and c or d"), "(((not(a==b))andc)ord)");
  EXPECT_EQ(shape("a not in b is not c"), "((anot inb)is notc)");
  EXPECT_EQ(shape("a < b | c ^ d & e << f"), "(a<(b|(c^(d&(e<<f)))))");
}

TEST_F(ParserTest, LiteralsOfMetadata) {
  const Expr *dict = expression(
      "{'signature': {'in_ptr0': '*fp32', 'XBLOCK': 'constexpr'}, 'device': "
      "DeviceProperties(type='cuda', index=0), 'constants': {}, 'hints': "
      "set(), 'configs': [{(0,): [['tt.divisibility', 16]]}], 'n': -3}, x");
  ASSERT_TRUE(dict);
  ASSERT_EQ(dict->kind, Expr::Dict);
  const Expr *signature = dict->lookup("signature");
  ASSERT_TRUE(signature);
  EXPECT_EQ(signature->lookup("in_ptr0")->stringValue(), "*fp32");
  EXPECT_EQ(dict->lookup("n")->intValue(), -3);
  EXPECT_EQ(dict->lookup("nothing"), nullptr);
}

TEST_F(ParserTest, StatementsOfAWrapper) {
  auto statements = parse("# AOT ID: ['0']\n"
                          "from torch import device\n"
                          "buf4 = buf3; del buf3  # reuse\n"
                          "a, b = args\n"
                          "x: \"f32[4]\" = y[0]\n"
                          "(buf3,) = self.partitions[0](p)\n"
                          "n += 1\n"
                          "assert x, 'y'\n"
                          "fn = lambda t, r: call(list(t))\n");
  ASSERT_EQ(statements.size(), 9u);
  EXPECT_EQ(statements[0]->kind, Stmt::Import);
  ASSERT_EQ(statements[0]->leading.size(), 1u);
  EXPECT_EQ(statements[0]->leading[0].text, "# AOT ID: ['0']");
  EXPECT_EQ(statements[1]->kind, Stmt::Assign);
  EXPECT_EQ(statements[2]->kind, Stmt::Delete);
  EXPECT_EQ(statements[2]->trailing, "# reuse");
  EXPECT_EQ(statements[3]->targets[0]->kind, Expr::Tuple);
  EXPECT_EQ(statements[4]->annotation->stringValue(), "f32[4]");
  EXPECT_EQ(statements[5]->targets[0]->kind, Expr::Tuple);
  EXPECT_EQ(statements[6]->name, "+=");
  EXPECT_EQ(statements[7]->kind, Stmt::Assert);
  EXPECT_EQ(statements[8]->value->kind, Expr::Text);
}

TEST_F(ParserTest, Blocks) {
  auto statements = parse("class Runner:\n"
                          "    def call(self, args: list = None) -> int:\n"
                          "        with torch.cuda._DeviceGuard(0):\n"
                          "            if p.item():\n"
                          "\n"
                          "                # subgraph: a\n"
                          "                f()\n"
                          "            elif q: g()\n"
                          "            else:\n"
                          "                h()\n"
                          "        while x:\n"
                          "            pass\n"
                          "        return (a, )\n"
                          "z = 1\n");
  ASSERT_EQ(statements.size(), 2u);
  const Stmt *function = statements[0]->body[0];
  EXPECT_EQ(function->kind, Stmt::Function);
  EXPECT_EQ(function->parameters.size(), 2u);
  ASSERT_EQ(function->body.size(), 3u);
  const Stmt *branch = function->body[0]->body[0];
  ASSERT_EQ(branch->kind, Stmt::If);
  ASSERT_EQ(branch->body.size(), 1u);
  EXPECT_EQ(branch->body[0]->leading[0].text, "# subgraph: a");
  ASSERT_EQ(branch->orelse.size(), 1u);
  EXPECT_EQ(branch->orelse[0]->kind, Stmt::If);
  EXPECT_EQ(branch->orelse[0]->body.size(), 1u);
  EXPECT_EQ(branch->orelse[0]->orelse.size(), 1u);
  EXPECT_EQ(function->body[1]->kind, Stmt::While);
  EXPECT_EQ(function->body[2]->value->kind, Expr::Tuple);
}

TEST_F(ParserTest, WhatIsUnknownIsKept) {
  auto statements = parse("x = = 3\n"
                          "try:\n"
                          "    y = 1\n"
                          "except E:\n"
                          "    z = 2\n"
                          "@decorated\n"
                          "def f(): pass\n"
                          "w = [i for i in range(3)]\n"
                          "v = 4\n");
  ASSERT_EQ(statements.size(), 7u);
  EXPECT_EQ(statements[0]->kind, Stmt::Text);
  EXPECT_EQ(statements[0]->source, "x = = 3");
  EXPECT_EQ(statements[1]->kind, Stmt::Text);
  ASSERT_EQ(statements[1]->body.size(), 1u);
  EXPECT_EQ(statements[1]->body[0]->kind, Stmt::Assign);
  EXPECT_EQ(statements[4]->kind, Stmt::Function);
  EXPECT_EQ(statements[5]->kind, Stmt::Assign);
  EXPECT_EQ(statements[6]->kind, Stmt::Assign);
}

TEST_F(ParserTest, DepthIsBounded) {
  std::string deep = "x = a";
  for (int i = 0; i < 5000; ++i)
    deep += ".b";
  auto statements = parse(deep + "\ny = " + std::string(5000, '-') + "1\n");
  ASSERT_EQ(statements.size(), 2u);
  for (const Stmt *stmt : statements)
    if (stmt->value) {
      EXPECT_LE(stmt->value->depth, Expr::kMaxDepth);
    }
  (void)parse(std::string(1000, '['));
  EXPECT_NE(error.find("nest deeper than 200"), std::string::npos);
}

TEST_F(ParserTest, NoUTF8) {
  (void)parse("a = 1\nb = '\xFF'\n");
  EXPECT_NE(error.find("t.py: line 2: holds bytes that are no UTF-8"),
            std::string::npos);
}
} // namespace
