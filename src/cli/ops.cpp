#include <fmt/format.h>

#include <tapehead/catalog.hpp>

#include "cli/cli.hpp"

namespace tapehead::cli {

void add_ops(Cli& cli) {
  cli.verb("ops", "List the operations with formula and derivative", [](Output& out) {
    detail::Json list = detail::Json::array();
    std::string family;
    for (const OpEntry& op : op_catalog()) {
      if (op.family != family) {
        out.say(fmt::format("{}{}\n", family.empty() ? "" : "\n", op.family));
        family = op.family;
      }
      out.say(fmt::format("  {:<22} {}\n", op.name, op.formula));
      if (op.differentiable) out.say(fmt::format("  {:<22}   derivative: {}\n", "", op.derivative));
      detail::Json item;
      item.set("op", op.name).set("family", op.family).set("formula", op.formula);
      item.set("derivative", op.derivative).set("differentiable", op.differentiable);
      list.push(std::move(item));
    }
    out.say(fmt::format("\n{} operations\n", op_catalog().size()));
    out.result().set("ops", std::move(list));
    return kDone;
  });
}

}  // namespace tapehead::cli
