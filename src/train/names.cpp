#include "train/names.hpp"

namespace tapehead::detail {

namespace {

constexpr std::pair<const char*, ModelKind> kKinds[] = {
    {"encoder", ModelKind::encoder},
    {"classifier", ModelKind::classifier},
    {"language-model", ModelKind::language_model},
    {"encoder-decoder", ModelKind::encoder_decoder}};
constexpr std::pair<const char*, Positions> kPositions[] = {
    {"none", Positions::none},        {"sinusoidal", Positions::sinusoidal},
    {"learned", Positions::learned},  {"rope", Positions::rope},
    {"alibi", Positions::alibi},      {"t5", Positions::t5},
    {"relative", Positions::relative}};
constexpr std::pair<const char*, Sinks> kSinks[] = {
    {"none", Sinks::none}, {"zero", Sinks::zero}, {"trained", Sinks::trained}};
constexpr std::pair<const char*, NormKind> kNorms[] = {
    {"layer", NormKind::layer}, {"rms", NormKind::rms}, {"none", NormKind::none}};
constexpr std::pair<const char*, NormPlace> kPlaces[] = {{"post", NormPlace::post},
                                                         {"pre", NormPlace::pre}};
constexpr std::pair<const char*, Activation> kActivations[] = {
    {"none", Activation::none}, {"relu", Activation::relu},
    {"gelu", Activation::gelu}, {"gelu-tanh", Activation::gelu_tanh},
    {"silu", Activation::silu}, {"swiglu", Activation::swiglu}};
constexpr std::pair<const char*, Initialiser> kInitialisers[] = {
    {"standard", Initialiser::standard},
    {"gpt", Initialiser::gpt},
    {"xavier", Initialiser::xavier},
    {"fan-in", Initialiser::fan_in}};
constexpr std::pair<const char*, Schedule> kSchedules[] = {
    {"cosine", Schedule::cosine},
    {"linear", Schedule::linear},
    {"constant", Schedule::constant},
    {"inverse-sqrt", Schedule::inverse_sqrt}};

}  // namespace

template <>
Names<ModelKind> names_of() {
  return kKinds;
}
template <>
Names<Positions> names_of() {
  return kPositions;
}
template <>
Names<Sinks> names_of() {
  return kSinks;
}
template <>
Names<NormKind> names_of() {
  return kNorms;
}
template <>
Names<NormPlace> names_of() {
  return kPlaces;
}
template <>
Names<Activation> names_of() {
  return kActivations;
}
template <>
Names<Initialiser> names_of() {
  return kInitialisers;
}
template <>
Names<Schedule> names_of() {
  return kSchedules;
}

}  // namespace tapehead::detail
