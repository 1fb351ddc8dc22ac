// The rules of the house that a compiler does not check: which room may include which, and how long a file may be.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

namespace eadem {
namespace {

constexpr int kMostLines = 800;

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The rooms in their order, as the build has them.
std::vector<std::string> rooms() {
  const std::string build = text_of(std::filesystem::path(EADEM_SOURCE_DIR) / "CMakeLists.txt");
  const std::regex pattern(R"(eadem_(?:room\(|program\(eadem )(\w+))");
  std::vector<std::string> names;
  for (std::sregex_iterator match(build.begin(), build.end(), pattern), end; match != end; ++match)
    names.push_back((*match)[1]);
  return names;
}

/// The includes of a file of `room` that the order forbids.
std::vector<std::string> breaches(const std::string& text, const std::string& room,
                                  const std::vector<std::string>& order) {
  const auto place = [&](const std::string& name) {
    return std::find(order.begin(), order.end(), name) - order.begin();
  };
  const std::regex pattern(
      R"re((?:^|\n)[ \t]*#[ \t]*include[ \t]*["<](eadem/([^/">]+)[^">]*|[^">]*\.\./[^">]*)[">])re");
  std::vector<std::string> found;
  for (std::sregex_iterator match(text.begin(), text.end(), pattern), end; match != end; ++match)
    if (!(*match)[2].matched || place((*match)[2]) > place(room)) found.push_back((*match)[1]);
  return found;
}

std::vector<std::filesystem::path> sources(const std::vector<std::string>& folders) {
  std::vector<std::filesystem::path> all;
  for (const std::string& folder : folders) {
    const auto root = std::filesystem::path(EADEM_SOURCE_DIR) / folder;
    if (!std::filesystem::exists(root)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
      if (entry.path().extension() == ".h" || entry.path().extension() == ".cpp") all.push_back(entry.path());
  }
  return all;
}

TEST(House, EachRoomIncludesOnlyThoseBeforeIt) {
  const std::vector<std::string> order = rooms();
  ASSERT_GE(order.size(), 13u);
  EXPECT_EQ(order.front(), "base");
  EXPECT_EQ(order.back(), "cli");
  const auto files = sources({"src/eadem"});
  ASSERT_FALSE(files.empty());
  for (const auto& path : files) {
    const auto relative = std::filesystem::relative(path, std::filesystem::path(EADEM_SOURCE_DIR) / "src/eadem");
    const std::string room = *relative.begin();
    EXPECT_NE(std::find(order.begin(), order.end(), room), order.end()) << path << " is in no room of CMakeLists.txt";
    for (const std::string& include : breaches(text_of(path), room, order))
      ADD_FAILURE() << relative << " of room " << room << " may not include " << include;
  }
}

TEST(House, ABreachIsFound) {
  const std::vector<std::string> order = {"base", "io", "cli"};
  EXPECT_EQ(breaches("#include \"eadem/base/x.h\"\n#include <eadem/io/y.h>\n", "io", order).size(), 0u);
  EXPECT_EQ(breaches("int x;\n  # include \"eadem/cli/x.h\"\n", "io", order),
            std::vector<std::string>{"eadem/cli/x.h"});
  EXPECT_EQ(breaches("#include <eadem/unknown/x.h>", "io", order).size(), 1u);
  EXPECT_EQ(breaches("#include \"../base/x.h\"", "io", order).size(), 1u);
  EXPECT_EQ(breaches("// #include \"eadem/cli/x.h\"", "io", order).size(), 0u);
}

// Tables that a program wrote (NAME_data.h) are exempt: nobody reads them from top to bottom.
TEST(House, NoFileIsTooLong) {
  for (const auto& path : sources({"src", "tests", "bench", "fuzz", "examples"})) {
    if (path.stem().string().ends_with("_data")) continue;
    const std::string text = text_of(path);
    EXPECT_LE(std::count(text.begin(), text.end(), '\n'), kMostLines) << path;
  }
}

}  // namespace
}  // namespace eadem
