#include <fmt/format.h>

#include <tapehead/tasks.hpp>

#include "cli/cli.hpp"

namespace tapehead::cli {

void add_tasks(Cli& cli) {
  cli.verb("tasks", "List the tasks with their chance level", [](Output& out) {
    out.say(fmt::format("{:<12}{:>8}{:>8}{:>10}{:>8}  {}\n", "task", "symbols", "length", "chance",
                        "floor", "what it asks"));
    detail::Json list = detail::Json::array();
    for (const TaskEntry& entry : task_catalog()) {
      const Task task = entry.make({});
      out.say(fmt::format("{:<12}{:>8}{:>8}{:>9.2f}%{:>8.4g}  {}\n", task.name, task.symbols,
                          task.length, 100 * task.chance, task.loss_floor, task.summary));
      detail::Json item;
      item.set("task", task.name).set("summary", task.summary).set("symbols", task.symbols);
      item.set("length", task.length).set("chance", task.chance).set("loss_floor", task.loss_floor);
      list.push(std::move(item));
    }
    out.say(
        "\nchance: share of tokens that are right by the best guess without the input\n"
        "floor: smallest loss that can be reached, in nats a token\n");
    out.result().set("tasks", std::move(list));
    return kDone;
  });
}

}  // namespace tapehead::cli
