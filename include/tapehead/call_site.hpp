// CallSite: the file and line where an op or module was called, which the tape remembers.
//
// Every op and every module takes one as its last argument; leave it out, and the compiler fills in
// the place of the call. The outermost call that gives a place wins: what the library's modules and
// compositions do inside is reported at your line, with the path of the module beside it, while the
// lines inside a module of your own are your lines.
#pragma once

#include <type_traits>

#include <tapehead/tensor.hpp>

namespace tapehead {

class CallSite {
  struct Compiler {};  // nobody else fills in a place by accident

 public:
  constexpr CallSite(Compiler = {}, const char* file = __builtin_FILE(),
                     int line = __builtin_LINE())
      : file_(file), line_(line) {}
  // For code that knows the place from elsewhere; `file` must live as long as the tape.
  [[nodiscard]] static constexpr CallSite at(const char* file, int line) {
    return {Compiler{}, file, line};
  }

  // As the compiler was given it.
  [[nodiscard]] constexpr const char* file() const { return file_; }
  [[nodiscard]] constexpr int line() const { return line_; }

 private:
  const char* file_;
  int line_;
};

// First thing in an op: while it lives, what is recorded on this thread carries the place `at`,
// unless an op or module further out has given one.
class OpCall {
 public:
  explicit OpCall(CallSite at) noexcept;
  ~OpCall();
  OpCall(const OpCall&) = delete;
  OpCall& operator=(const OpCall&) = delete;

 private:
  CallSite outer_;
};

// One side of + - * /. Operators cannot have default arguments, so the place travels with the
// operand: anything that converts to a Tensor becomes one. Lives no longer than the expression.
class Operand {
 public:
  Operand(const Tensor& x, CallSite at = {}) : x_(&x), at_(at) {}
  template <class T>
  requires(std::is_convertible_v<const T&, Tensor> && !std::is_same_v<T, Tensor> &&
           !std::is_same_v<T, Operand>) Operand(const T& x, CallSite at = {})
      : held_(x), x_(&held_), at_(at) {}
  Operand(const Operand&) = delete;
  Operand& operator=(const Operand&) = delete;

  [[nodiscard]] const Tensor& tensor() const { return *x_; }
  [[nodiscard]] CallSite at() const { return at_; }

 private:
  Tensor held_;
  const Tensor* x_;
  CallSite at_;
};

}  // namespace tapehead
