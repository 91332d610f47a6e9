// Errors: every exception that Tapehead throws derives from tapehead::Error.
//
// An error is thrown before any state changes. Its text names the operation, the values found and
// wanted, and what to do; a second line names the module it happened in, where one is known.
#pragma once

#include <stdexcept>
#include <string>

namespace tapehead {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Sizes or ranks that do not fit together.
struct ShapeError : Error {
  using Error::Error;
};

// A dtype that the operation does not take, or two that differ.
struct DTypeError : Error {
  using Error::Error;
};

// An index, token id or axis outside its range.
struct IndexError : Error {
  using Error::Error;
};

// An argument or option outside its range.
struct ValueError : Error {
  using Error::Error;
};

// A tape used twice, a tensor of another tape, a parameter changed under a tape.
struct TapeError : Error {
  using Error::Error;
};

// NaN or infinity where a finite number is needed.
struct NonFiniteError : Error {
  using Error::Error;
};

// More memory wanted than the system gives.
struct MemoryError : Error {
  using Error::Error;
};

// A file that cannot be read or written, or that does not hold what it claims.
struct FileError : Error {
  using Error::Error;
};

}  // namespace tapehead
