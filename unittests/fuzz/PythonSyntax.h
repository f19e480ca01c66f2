// Python's own parser, in a process beside the fuzzer.

#ifndef OPPROF_UNITTESTS_FUZZ_PYTHONSYNTAX_H
#define OPPROF_UNITTESTS_FUZZ_PYTHONSYNTAX_H

#include "Fuzzing.h"

#include <csignal>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

/// A python3 that is asked whether texts are Python. It ends with the fuzzer.
class PythonSyntax {
public:
  PythonSyntax() {
    int questions[2], answers[2];
    ::require(::pipe(questions) == 0 && ::pipe(answers) == 0);
    process = ::fork();
    if (process == 0) {
      ::dup2(questions[0], 0);
      ::dup2(answers[1], 1);
      for (int end : {questions[0], questions[1], answers[0], answers[1]})
        ::close(end);
      // Each text after eight digits with its size.
      ::execlp("python3", "python3", "-I", "-W", "ignore", "-c",
               "import ast, sys\n"
               "while size := sys.stdin.buffer.read(8):\n"
               "    text = sys.stdin.buffer.read(int(size, 16))\n"
               "    try:\n"
               "        ast.parse(text)\n"
               "        sys.stdout.write('1')\n"
               "    except (SyntaxError, ValueError) as error:\n"
               "        print(error, text.decode(errors='replace'), "
               "file=sys.stderr)\n"
               "        sys.stdout.write('0')\n"
               "    sys.stdout.flush()\n",
               nullptr);
      ::_exit(127);
    }
    ::close(questions[0]);
    ::close(answers[1]);
    question = questions[1];
    answer = answers[0];
  }
  ~PythonSyntax() {
    ::close(question);
    ::close(answer);
    ::waitpid(process, nullptr, 0);
  }
  PythonSyntax(const PythonSyntax &) = delete;
  PythonSyntax &operator=(const PythonSyntax &) = delete;

  /// Stops the fuzzer where `text` is no Python.
  void require(const std::string &text) {
    char size[9];
    std::snprintf(size, sizeof(size), "%08zx", text.size());
    send(size, 8);
    send(text.data(), text.size());
    char isPython = 0;
    ::require(::read(answer, &isPython, 1) == 1 && isPython == '1');
  }

private:
  void send(const char *bytes, size_t size) {
    while (size) {
      ssize_t sent = ::write(question, bytes, size);
      ::require(sent > 0);
      bytes += sent;
      size -= size_t(sent);
    }
  }

  pid_t process;
  int question, answer;
};

#endif // OPPROF_UNITTESTS_FUZZ_PYTHONSYNTAX_H
