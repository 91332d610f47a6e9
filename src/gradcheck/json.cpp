#include "gradcheck/json.hpp"

namespace tapehead::detail {

namespace {

Json texts(const std::vector<std::string>& list) {
  Json json = Json::array();
  for (const std::string& text : list) json.push(text);
  return json;
}

Json numbers(std::span<const std::int64_t> list) {
  Json json = Json::array();
  for (const std::int64_t n : list) json.push(n);
  return json;
}

Json to_json(const GradcheckElement& e) {
  Json json;
  json.set("name", e.name).set("verdict", name_of(e.verdict)).set("cotangent", e.cotangent);
  json.set("tape", e.tape).set("numeric", e.numeric).set("bar", e.bar).set("error", e.error);
  json.set("relative", e.relative).set("ratio", e.ratio).set("step", e.step);
  json.set("left", e.left).set("right", e.right);
  return json;
}

Json to_json(const GradcheckTensor& t) {
  Json json;
  json.set("name", t.name).set("shape", numbers(t.shape.sizes())).set("compared", t.compared);
  json.set("mismatches", t.mismatches).set("kinks", t.kinks).set("unresolved", t.unresolved);
  json.set("zeros", t.zeros).set("zero_names", texts(t.zero_names)).set("wide", t.wide);
  json.set("largest", t.largest).set("worst_relative", t.worst_relative);
  json.set("widest_relative", t.widest_relative);
  return json;
}

Json to_json(const Float32Op& op) {
  Json json;
  json.set("op", op.op).set("backward", op.backward).set("nodes", op.nodes);
  json.set("compared", op.compared).set("own", op.own).set("own_element", op.own_element);
  json.set("own_name", op.own_name).set("used", op.used).set("arriving", op.arriving);
  json.set("leaving", op.leaving).set("leaving_element", op.leaving_element);
  json.set("leaving_name", op.leaving_name).set("lost", op.lost);
  return json;
}

Json to_json(const std::vector<Float32Op>& ops) {
  Json json = Json::array();
  for (const Float32Op& op : ops) json.push(to_json(op));
  return json;
}

Json to_json(const std::vector<Float32Tensor>& tensors) {
  Json json = Json::array();
  for (const Float32Tensor& t : tensors) {
    Json item;
    item.set("name", t.name).set("shape", numbers(t.shape.sizes())).set("digits", t.digits());
    item.set("ulps", t.ulps).set("element_ulps", t.element_ulps).set("worst", t.worst);
    item.set("zero", t.zero);
    json.push(std::move(item));
  }
  return json;
}

}  // namespace

Json to_json(const Float32Report& r) {
  Json json;
  json.set("name", r.name).set("verdict", name_of(r.status));
  json.set("status", static_cast<int>(r.status)).set("message", r.message).set("bound", r.bound);
  json.set("compared", r.compared).set("ops", to_json(r.ops)).set("worst", to_json(r.worst));
  json.set("outputs", to_json(r.outputs)).set("gradients", to_json(r.gradients));
  json.set("seconds", r.seconds);
  return json;
}

Json to_json(const Float32Suite& suite) {
  Json things = Json::array();
  for (const Float32Suite::Thing& thing : suite.things) {
    Json item;
    item.set("name", thing.name).set("samples", thing.samples).set("compared", thing.compared);
    if (thing.left_out.empty()) {
      item.set("gravest", to_json(thing.report));
    } else {
      item.set("left_out", thing.left_out);
    }
    things.push(std::move(item));
  }
  Json json;
  json.set("verdict", name_of(suite.status())).set("status", static_cast<int>(suite.status()));
  json.set("bound", suite.bound).set("compared", suite.compared());
  json.set("ops", to_json(suite.ops)).set("things", std::move(things));
  json.set("seconds", suite.seconds);
  return json;
}

Json to_json(const GradcheckReport& r) {
  Json json;
  json.set("name", r.name).set("verdict", name_of(r.status));
  json.set("status", static_cast<int>(r.status)).set("message", r.message).set("fast", r.fast);
  json.set("tolerance", r.tolerance).set("worst_relative", r.worst_relative());
  json.set("compared", r.compared).set("within_one_bar", r.within_one_bar);
  json.set("within_three_bars", r.within_three_bars);
  Json tensors = Json::array();
  for (const GradcheckTensor& t : r.tensors) tensors.push(to_json(t));
  Json worst = Json::array();
  for (const GradcheckElement& e : r.worst) worst.push(to_json(e));
  json.set("tensors", std::move(tensors));
  json.set("worst", std::move(worst));
  json.set("histogram", numbers(r.histogram)).set("coverage", texts(r.coverage));
  json.set("evaluations", r.evaluations).set("seconds", r.seconds);
  return json;
}

Json to_json(const OpCheck& op) {
  Json json;
  json.set("op", op.name).set("family", op.family).set("differentiable", op.differentiable);
  json.set("smooth", op.smooth).set("verdict", name_of(op.status));
  json.set("status", static_cast<int>(op.status)).set("message", op.message);
  json.set("samples", op.samples).set("compared", op.compared).set("kinks", op.kinks);
  json.set("within_one_bar", op.within_one_bar).set("within_three_bars", op.within_three_bars);
  json.set("worst_relative", op.worst_relative).set("widest_relative", op.widest_relative);
  json.set("worst_sample", op.worst.name).set("evaluations", op.evaluations);
  json.set("coverage", texts(op.coverage));
  if (op.from_composition >= 0) json.set("from_composition", op.from_composition);
  Json failures = Json::array();
  for (const GradcheckReport& report : op.failures) failures.push(to_json(report));
  json.set("failures", std::move(failures));
  return json;
}

Json to_json(const Suite& suite) {
  Json ops = Json::array();
  for (const OpCheck& op : suite.ops) ops.push(to_json(op));
  Json modules = Json::array();
  for (const ModuleCheck& module : suite.modules) {
    Json item = to_json(module.report);
    item.set("parameters", module.parameters);
    modules.push(std::move(item));
  }
  Json json;
  json.set("verdict", name_of(suite.status())).set("status", static_cast<int>(suite.status()));
  json.set("ops", std::move(ops));
  json.set("modules", std::move(modules));
  json.set("seconds", suite.seconds);
  return json;
}

Json to_json(const SelfTest& test) {
  Json faults = Json::array();
  for (const FaultTally& t : test.tallies) {
    Json item;
    item.set("op", t.op).set("edge", t.edge).set("fault", t.fault).set("caught", t.caught);
    item.set("missed", t.missed).set("equivalent", t.equivalent).set("zero_gradient", t.zero);
    faults.push(std::move(item));
  }
  Json json;
  json.set("passed", test.passed()).set("broken", test.broken);
  json.set("faults", std::move(faults));
  json.set("seconds", test.seconds);
  return json;
}

}  // namespace tapehead::detail
