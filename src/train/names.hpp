// The words for choices, on the command line and in files.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <tapehead/runs.hpp>

#include "core/message.hpp"

namespace tapehead::detail {

template <class T>
using Names = std::span<const std::pair<const char*, T>>;

// Every choice of T with its word.
template <class T>
[[nodiscard]] Names<T> names_of();
template <>
Names<ModelKind> names_of();
template <>
Names<Positions> names_of();
template <>
Names<Sinks> names_of();
template <>
Names<NormKind> names_of();
template <>
Names<NormPlace> names_of();
template <>
Names<Activation> names_of();
template <>
Names<Initialiser> names_of();
template <>
Names<Schedule> names_of();

template <class T>
[[nodiscard]] std::string word_for(T value) {
  for (const auto& one : names_of<T>()) {
    if (one.second == value) return one.first;
  }
  return "";
}

// "layer, rms or none".
template <class T>
[[nodiscard]] std::string words_of() {
  const Names<T> names = names_of<T>();
  std::string words;
  for (std::size_t i = 0; i < names.size(); ++i) {
    words += fmt::format("{}{}",
                         i == 0                  ? ""
                         : i + 1 == names.size() ? " or "
                                                 : ", ",
                         names[i].first);
  }
  return words;
}

// ValueError "norm: 'batch' is unknown; choose layer, rms or none".
template <class T>
[[nodiscard]] T choice_of(std::string_view what, std::string_view word) {
  for (const auto& one : names_of<T>()) {
    if (word == one.first) return one.second;
  }
  fail<ValueError>(fmt::format("{}: '{}' is unknown; choose {}", what, word, words_of<T>()));
}

}  // namespace tapehead::detail
