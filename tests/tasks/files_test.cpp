// The user's own files: characters, line ends, sizes, what is refused and how.
#include <algorithm>

#include <tapehead/tasks.hpp>

#include "io/files.hpp"
#include "support/catch.hpp"
#include "tasks/utf8.hpp"

using namespace tapehead;

namespace {

using Ids = std::vector<std::int64_t>;

Loaded load_text(const std::string& kind, const std::string& bytes,
                 const TaskOptions& options = {}) {
  const TemporaryFolder folder;
  write_bytes(folder / "f", bytes);
  return load_task(kind, folder / "f", options);
}

Ids ids(const Tensor& x) { return x.to_vector<std::int64_t>(); }

// Every document of the training split.
std::vector<std::string> documents(const Loaded& loaded) {
  std::vector<std::string> list;
  for (std::int64_t row = 0; row < loaded.data.train.count(); ++row) {
    const Batch one = loaded.data.train.take(row, row + 1);
    list.push_back(loaded.task.inputs.decode(ids(one.inputs)));
  }
  std::sort(list.begin(), list.end());
  return list;
}

}  // namespace

TEST_CASE("text is cut into windows whose targets are one further on") {
  const Loaded loaded = load_text("text", "abcabcabcabcabcabcab", {.length = 4});  // 20: 18 and 2
  CHECK(loaded.task.symbols == 3);
  CHECK(loaded.data.train.count() == 14);
  const Ids rows = {0, 13};
  const Batch batch = loaded.data.train.take(rows);
  CHECK(ids(batch.inputs) == Ids{0, 1, 2, 0, 1, 2, 0, 1});
  CHECK(ids(batch.targets) == Ids{1, 2, 0, 1, 2, 0, 1, 2});
  // The validation covers each of its tokens once, the last window padded.
  REQUIRE(loaded.data.validation.count() == 1);
  CHECK(ids(loaded.data.validation.take(0, 1).targets) == Ids{1, kIgnored, kIgnored, kIgnored});
  CHECK_FALSE(loaded.data.test.defined());

  Sequences text;
  text.inputs = tensor({0, 1, 2, 3, 4, 5, 6}, DType::i64);
  text.block = 3;
  text.stride = 3;
  CHECK(text.count() == 2);
  CHECK(ids(text.take(0, 2).inputs) == Ids{0, 1, 2, 3, 4, 5});
  CHECK(ids(text.take(0, 2).targets) == Ids{1, 2, 3, 4, 5, 6});
  text.inputs = tensor({0, 1, 2, 3, 4}, DType::i64);
  CHECK(ids(text.take(1, 2).targets) == Ids{4, kIgnored, kIgnored});
}

TEST_CASE("characters are code points: Chinese, emoji, a byte order mark") {
  const Loaded loaded =
      load_text("text", "\xEF\xBB\xBF\u4f60\u597d\U0001F600\u4f60\u597d a\r\nb", {.length = 2});
  CHECK(loaded.task.symbols == 7);  // two signs, an emoji, space, a, b and one line break
  CHECK(loaded.task.inputs.find("\U0001F600").has_value());
  CHECK(loaded.task.inputs.find("\n").has_value());
  CHECK_FALSE(loaded.task.inputs.find("\r").has_value());
  const std::string raw("\xFF\x00\r\n\xFE ab", 8);
  const Loaded bytes = load_text("text", raw, {.length = 2, .bytes = true});
  CHECK(bytes.task.symbols == 256);
  CHECK(ids(bytes.data.train.take(0, 1).inputs) == Ids{255, 0});  // nothing is dropped
  CHECK(ids(bytes.data.train.take(2, 3).inputs) == Ids{'\r', '\n'});
}

TEST_CASE("what is not UTF-8 is named with its byte") {
  struct Case {
    std::string bytes;
    const char* where;
  };
  const std::vector<Case> cases = {
      {"ab\xFFzzzzzzzzz", "0xFF at offset 2"},     {"abc\xC3", "0xC3 at offset 3"},  // cut off
      {"\xC0\xAFzzz", "0xC0 at offset 0"},                                           // overlong
      {"a\xE0\x80\x80zzz", "0xE0 at offset 1"},                                      // overlong
      {"a\xED\xA0\x80zzz", "0xED at offset 1"},                                      // a surrogate
      {"\xF4\x90\x80\x80zzz", "0xF4 at offset 0"},  // above U+10FFFF
      {"ab\x80zzz", "0x80 at offset 2"},            // a continuation without a start
  };
  for (const Case& one : cases) {
    CHECK_THROWS_WITH(load_text("text", one.bytes), ContainsSubstring(one.where));
    CHECK_THROWS_AS(load_text("lines", one.bytes), FileError);
  }
  CHECK(detail::code_point_at("\U0010FFFF", 0).value == 0x10FFFF);
  CHECK(detail::code_point_at("\uFFFD", 0).bytes == 3);
}

TEST_CASE("small files are refused with the size found and the size needed") {
  CHECK_THROWS_WITH(load_text("text", ""),
                    ContainsSubstring("holds 0 characters") && ContainsSubstring("at least 72"));
  CHECK_THROWS_WITH(load_text("text", "0123456789", {.length = 16}),
                    ContainsSubstring("holds 10 characters") && ContainsSubstring("at least 18"));
  // 17 in 18 - 1: the size that is named is enough, one less is not.
  CHECK(load_text("text", "0123456789abcdefgh", {.length = 16}).data.train.count() == 1);
  CHECK_THROWS_AS(load_text("text", "0123456789abcdefg", {.length = 16}), ValueError);
  CHECK_THROWS_WITH(load_text("text", std::string(100, 'a')), ContainsSubstring("1 kinds"));
  CHECK_THROWS_WITH(load_text("lines", ""), ContainsSubstring("0 lines"));
  CHECK_THROWS_WITH(load_text("lines", "one\n\n\n"), ContainsSubstring("1 lines"));
  CHECK_THROWS_AS(load_task("text", "/nowhere/at/all"), FileError);
  const Loaded five = load_text("lines", "a\nb\nc\nd\ne");
  CHECK(five.data.train.count() == 5);
  CHECK_FALSE(five.data.validation.defined());
}

TEST_CASE("lines are the same whatever ends them") {
  const std::vector<std::string> wanted = {"\nanna", "\nbo", "\ncy"};
  for (const char* text :
       {"anna\nbo\n\ncy\n", "anna\r\nbo\r\n\r\ncy\r\n", "anna\rbo\r\rcy\r", "anna\nbo\ncy",
        "\xEF\xBB\xBF"
        "anna\nbo\ncy"}) {
    const Loaded loaded = load_text("lines", text);
    CHECK(documents(loaded) == wanted);
    CHECK(loaded.task.symbols == 7);  // a b c n o y and the boundary
  }
  // A lone CR inside a line of a file with LF is a character like any other.
  CHECK(load_text("lines", "a\rb\nc\n").task.inputs.find("\r").has_value());
}

TEST_CASE("documents are padded to the longest of their batch, and padding does not count") {
  const Loaded loaded = load_text("lines", "anna\nbo\ncy\n");
  const Sequences& train = loaded.data.train;
  CHECK(train.inputs.shape() == Shape{3, 5});
  for (std::int64_t row = 0; row < 3; ++row) {
    const Batch one = train.take(row, row + 1);
    const Ids target = ids(one.targets);
    CHECK(one.lengths[0] == one.inputs.dim(1));
    CHECK(target.back() == 0);  // the boundary ends it
    CHECK(std::count(target.begin(), target.end(), kIgnored) == 0);
  }
  const Batch all = train.take(0, 3);
  const Ids targets = ids(all.targets);
  CHECK(std::count(targets.begin(), targets.end(), kIgnored) == 4);  // 15 - 5 - 3 - 3
}

TEST_CASE("pairs and labels") {
  const Loaded pairs = load_text("pairs", "ab\tx\r\nb\tyyx\r\n");
  CHECK(pairs.task.model == ModelKind::encoder_decoder);
  CHECK(pairs.task.symbols == 2);
  CHECK(pairs.task.classes == 3);
  for (std::int64_t row = 0; row < 2; ++row) {
    const Batch one = pairs.data.train.take(row, row + 1);
    const std::string source = pairs.task.inputs.decode(ids(one.inputs));
    const std::string answer = pairs.task.outputs.decode(ids(one.targets));
    CHECK((source == "ab" || source == "b"));
    CHECK(answer == (source == "ab" ? "x\n" : "yyx\n"));
    CHECK(pairs.task.outputs.decode(ids(one.decoder)) ==
          std::string("\n").append(answer, 0, answer.size() - 1));
  }
  const Loaded labels = load_text("labels", "good\tyes\nbad\tno\nfine\tyes\n");
  CHECK(labels.task.model == ModelKind::classifier);
  CHECK(labels.task.classes == 2);
  CHECK(labels.task.chance == Approx(2.0 / 3));
  CHECK(labels.data.train.targets.shape() == Shape{3, 1});
  CHECK_THROWS_WITH(load_text("pairs", "ab\tx\nb y\n"), ContainsSubstring("line 2"));
  CHECK_THROWS_WITH(load_text("pairs", "ab\t\nb\ty\n"), ContainsSubstring("line 1"));
  CHECK_THROWS_WITH(load_text("pairs", "a\tb\tc\n"), ContainsSubstring("line 1"));
  CHECK_THROWS_WITH(load_text("labels", "a\tx\nb\tx\n"), ContainsSubstring("1 classes"));
}

TEST_CASE("unknown characters of a prompt are named with code point and place") {
  const Vocabulary known({"a", "b", "<36>", "\u4f60"});
  CHECK(known.encode("ab<36>\u4f60a") == Ids{0, 1, 2, 3, 0});
  CHECK_THROWS_WITH(known.encode("ab\u597d"),
                    ContainsSubstring("U+597D") && ContainsSubstring("byte 2"));
  CHECK_THROWS_WITH(known.encode("a?"), ContainsSubstring("'?' (U+003F) at byte 1"));
  CHECK_THROWS_WITH(known.encode("a\xFF"), ContainsSubstring("byte 0xFF"));
  CHECK(known.decode(Ids{3, 9}) == "\u4f60<9>");
  CHECK_THROWS_AS(Vocabulary({"a", "a"}), ValueError);
  CHECK_THROWS_WITH(make_task("text"), ContainsSubstring("--data"));
}
