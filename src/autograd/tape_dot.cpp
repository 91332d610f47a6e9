// The tape as a picture, in the language of Graphviz: https://graphviz.org/doc/info/lang.html
#include <string>
#include <vector>

#include <fmt/format.h>

#include <tapehead/tape.hpp>

#include "core/place.hpp"

namespace tapehead {
namespace {

// Inside of double quotes: Graphviz reads backslashes (\N is the node's name) and entities (&lt;).
std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (c == '&') {
      result += "&amp;";
    } else if (c == '\n') {
      result += "\\n";
    } else {
      result += code < 0x20 || code == 0x7f ? ' ' : c;
    }
  }
  return result + '"';
}

// Modules inside of modules, as their paths have it: "encoder.layers.0".
struct Cluster {
  std::vector<std::string> lines;  // of the nodes right in it
  std::vector<std::string> names;  // of the inner ones, in the order of recording
  std::vector<Cluster> inner;

  Cluster& at(std::string_view path) {
    if (path.empty()) return *this;
    const std::size_t dot = path.find('.');
    const std::string_view first = path.substr(0, dot);
    const std::string_view rest =
        dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
    for (std::size_t i = 0; i < inner.size(); ++i) {
      if (names[i] == first) return inner[i].at(rest);
    }
    names.emplace_back(first);
    return inner.emplace_back().at(rest);
  }

  void write(std::string& text, int depth, int& number) const {
    const std::string indent(static_cast<std::size_t>(2 * depth), ' ');
    for (const std::string& line : lines) text += indent + line + "\n";
    for (std::size_t i = 0; i < inner.size(); ++i) {
      text += fmt::format("{}subgraph cluster_{} {{\n{}  label={};\n", indent, number++, indent,
                          quoted(names[i]));
      inner[i].write(text, depth + 1, number);
      text += indent + "}\n";
    }
  }
};

std::string_view parent(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

}  // namespace

std::string Tape::to_dot() const {
  Cluster root;
  std::string edges;
  for (int i = 0; i < size(); ++i) {
    const NodeInfo info = node(i);
    const bool parameter = !info.name.empty();
    const bool leaf = info.inputs.empty();
    std::string tip = fmt::format("node {}", i);
    if (info.line > 0) tip += ", " + detail::to_string(CallSite::at(info.file, info.line));
    // A parameter stands where it belongs, wherever it is used first.
    root.at(parameter ? parent(info.name) : info.module)
        .lines.push_back(fmt::format("n{} [label={}, tooltip={}{}];", i,
                                     quoted(parameter ? info.name : info.op), quoted(tip),
                                     parameter ? ", shape=ellipse, fillcolor=\"#fff3d6\""
                                     : leaf    ? ", shape=ellipse"
                                               : ""));
    for (const int input : info.inputs) {
      const NodeInfo from = node(input);
      edges += fmt::format("  n{} -> n{} [label={}];\n", input, i,
                           quoted(fmt::format("{}{}", name_of(from.dtype), to_string(from.shape))));
    }
  }
  std::string text =
      "digraph tape {\n"
      "  graph [fontname=\"sans-serif\", style=rounded, color=\"#8899aa\"];\n"
      "  node [fontname=\"sans-serif\", shape=box, style=\"filled,rounded\", fillcolor=white];\n"
      "  edge [fontname=\"sans-serif\", fontsize=10, color=\"#556677\"];\n";
  int number = 0;
  root.write(text, 1, number);
  return text + edges + "}\n";
}

}  // namespace tapehead
