#include <fmt/format.h>

#include <tapehead/tasks.hpp>

#include "cli/cli.hpp"
#include "train/names.hpp"

namespace tapehead::cli {

void add_tasks(Cli& cli) {
  cli.verb("tasks", "List the tasks with their chance level", [](Output& out) {
    out.say(fmt::format("{:<18}{:<17}{:>7}{:>7}{:>9}{:>6}  {}\n", "task", "model", "symbols",
                        "length", "chance", "floor", "what it asks"));
    detail::Json list = detail::Json::array();
    for (const TaskEntry& entry : task_catalog()) {
      detail::Json item;
      item.set("task", entry.name).set("summary", entry.summary);
      if (entry.make) {
        const Task task = entry.make({});
        out.say(fmt::format("{:<18}{:<17}{:>7}{:>7}{:>8.2f}%{:>6.4g}  {}\n", task.name,
                            detail::word_for(task.model), task.symbols, task.length,
                            100 * task.chance, task.loss_floor, task.summary));
        item.set("model", detail::word_for(task.model)).set("symbols", task.symbols);
        item.set("length", task.length).set("chance", task.chance);
        item.set("loss_floor", task.loss_floor);
      } else {
        out.say(fmt::format("{:<18}{:<17}{:>7}{:>7}{:>9}{:>6}  {}\n", entry.name, "(from a file)",
                            "", "", "", "", entry.summary));
      }
      list.push(std::move(item));
    }
    out.say(
        "\nchance: share of tokens that are right by the best guess without the input\n"
        "floor: smallest loss that can be reached, in nats a token\n"
        "Files are given with --data FILE.\n");
    out.result().set("tasks", std::move(list));
    return kDone;
  });
}

}  // namespace tapehead::cli
