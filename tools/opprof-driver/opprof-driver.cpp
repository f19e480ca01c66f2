// opprof-driver: what the `opprof` command has done natively, a process a
// command: a run folder from files to report, launches, recommended rewrites.
// The other tools that MLIR is in lie here too, by the name that it is called.

#include "../HugePages.h"
#include "../Parent.h"
#include "../Tools.h"

#include "opprof/Driver/Commands.h"
#include "opprof/Support/TerminalText.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"

#include <climits>
#include <csignal>
#include <sys/prctl.h>
#include <unistd.h>

using namespace llvm;
using namespace opprof::driver;

namespace {
/// What the command line says. Options are of the whole program, in which other
/// tools lie: they are there once this tool is begun.
class CommandLine {
public:
  /// Runs the command that was given; the status is set where it worked.
  Error run(int &status);
  /// Hides what is not this tool's, and reads the line.
  void parse(int argc, char **argv);

private:
  opprof::report::TextOptions getPageOptions() const;
  Expected<std::optional<opprof::profile::ItemKind>> getKind() const;
  Error runDiff(int &status);

  cl::OptionCategory category{"Options"};
  cl::SubCommand importCommand{"import", "Write a graph of any form as MLIR"};
  cl::SubCommand mapCommand{"map",
                            "Import a run folder's graph, find its repeated "
                            "subgraphs, and map the launches of its code"};
  cl::SubCommand profileCommand{"profile",
                                "Make the profile and reports of a run folder"};
  cl::SubCommand filesCommand{
      "profile-files",
      "Make a run folder of files that were recorded elsewhere"};
  cl::SubCommand timelineCommand{
      "profile-timeline", "Make the profile and reports of one timeline"};
  cl::SubCommand reportCommand{"report", "Show profiles and recordings"};
  cl::SubCommand diffCommand{
      "diff", "Compare recordings with those given as --to; the exit "
              "status is 3 where --fail-above is passed, and 4 where that is "
              "not known"};
  cl::SubCommand topCommand{"top", "List what takes most of a recording"};
  cl::SubCommand explainCommand{"explain", "Explain a finding"};
  cl::SubCommand recommendCommand{
      "recommend", "Write the rewrites that should make a graph faster"};
  cl::SubCommand launchesCommand{"launches",
                                 "List what generated code launches"};
  cl::SubCommand checkCommand{"check", "Refuse a folder that cannot be filled"};
  cl::SubCommand clearCommand{"clear",
                              "Take away what an earlier run left in a folder"};
  cl::SubCommand metricsCommand{
      "metrics", "Print the raw counters that names of sets and metrics ask "
                 "for, as JSON"};
  cl::SubCommand selectCommand{
      "select", "Print which launches of a step are counted for a "
                "run folder, as JSON"};
  cl::SubCommand deriveCommand{
      "derive", "Print the values of counted ranges, which PATH has as JSON"};
  cl::opt<double> elapsed{
      "elapsed",
      cl::sub(cl::SubCommand::getAll()),
      cl::cat(category),
      cl::value_desc("seconds"),
      cl::init(0),
      cl::desc("How long the command has run: progress counts on")};
  cl::opt<std::string> path{cl::Positional,           cl::Required,
                            cl::desc("PATH"),         cl::cat(category),
                            cl::sub(importCommand),   cl::sub(mapCommand),
                            cl::sub(profileCommand),  cl::sub(filesCommand),
                            cl::sub(timelineCommand), cl::sub(reportCommand),
                            cl::sub(diffCommand),     cl::sub(topCommand),
                            cl::sub(explainCommand),  cl::sub(recommendCommand),
                            cl::sub(launchesCommand), cl::sub(checkCommand),
                            cl::sub(clearCommand),    cl::sub(selectCommand),
                            cl::sub(deriveCommand)};
  cl::list<std::string> others{cl::Positional,         cl::ZeroOrMore,
                               cl::desc("PATH..."),    cl::cat(category),
                               cl::sub(reportCommand), cl::sub(diffCommand)};
  cl::list<std::string> to{"to", cl::cat(category), cl::sub(diffCommand),
                           cl::value_desc("path"),
                           cl::desc("What PATHs are compared with")};
  cl::opt<std::string> by{"by",
                          cl::cat(category),
                          cl::sub(diffCommand),
                          cl::sub(topCommand),
                          cl::value_desc("kind"),
                          cl::desc("node, class, module, kernel or operator")};
  cl::opt<double> failAbove{
      "fail-above", cl::cat(category), cl::sub(diffCommand),
      cl::value_desc("percent"),
      cl::desc("End with status 3 where anything is slower by more "
               "than that of a step")};
  cl::opt<DifferenceForm> differenceForm{
      "format",
      cl::cat(category),
      cl::sub(diffCommand),
      cl::init(DifferenceForm::Text),
      cl::desc("Form of what is printed:"),
      cl::values(clEnumValN(DifferenceForm::Text, "text", "a page"),
                 clEnumValN(DifferenceForm::Markdown, "markdown",
                            "for a pull request"),
                 clEnumValN(DifferenceForm::JSON, "json", "for programs"))};
  cl::opt<uint64_t> number{"n", cl::cat(category), cl::sub(topCommand),
                           cl::init(20), cl::desc("Lines")};
  cl::opt<std::string> ofRun{
      "run", cl::cat(category), cl::sub(explainCommand), cl::value_desc("path"),
      cl::desc("The recording whose finding is explained")};
  cl::opt<std::string> names{cl::Positional, cl::Required, cl::desc("NAMES"),
                             cl::cat(category), cl::sub(metricsCommand)};
  cl::opt<std::string> step{
      "step",
      cl::cat(category),
      cl::value_desc("file"),
      cl::init("-"),
      cl::sub(selectCommand),
      cl::desc("The step's launches, and which are asked for, as JSON; - "
               "(default) is stdin")};
  cl::opt<std::string> output{"o",
                              cl::cat(category),
                              cl::Required,
                              cl::value_desc("path"),
                              cl::sub(importCommand),
                              cl::sub(recommendCommand),
                              cl::desc("What to write")};
  cl::opt<std::string> archive{
      "archive", cl::cat(category), cl::value_desc("file"),
      cl::sub(importCommand),
      cl::desc("What PATH, which is graph JSON, was made of: errors name it")};
  cl::opt<std::string> graph{"graph",
                             cl::cat(category),
                             cl::value_desc("file"),
                             cl::sub(filesCommand),
                             cl::sub(launchesCommand),
                             cl::sub(timelineCommand),
                             cl::desc("The graph of what ran")};
  cl::opt<std::string> codeFolder{
      "code", cl::cat(category), cl::value_desc("folder"),
      cl::sub(filesCommand),
      cl::desc("Inductor's debug folder, or a folder of them; left out "
               "where the program ran uncompiled")};
  cl::opt<std::string> trace{"trace", cl::cat(category), cl::value_desc("file"),
                             cl::sub(filesCommand),
                             cl::desc("The recording: a trace of "
                                      "torch.profiler, a capture, a "
                                      "report of Nsight Systems or its "
                                      "export")};
  cl::opt<std::string> countersFile{
      "counters",
      cl::cat(category),
      cl::value_desc("file"),
      cl::sub(filesCommand),
      cl::sub(timelineCommand),
      cl::desc("What Nsight Compute counted (a CSV page, a "
               "report), or counters.json")};
  cl::opt<std::string> timeline{"timeline",
                                cl::cat(category),
                                cl::Required,
                                cl::value_desc("file"),
                                cl::sub(timelineCommand),
                                cl::desc("A capture or a trace")};
  cl::opt<std::string> observed{
      "operators", cl::cat(category), cl::value_desc("file"),
      cl::sub(timelineCommand),
      cl::desc("What the observer recorded beside the capture")};
  cl::opt<std::string> process{
      "process", cl::cat(category), cl::value_desc("-rRANK-pPID"),
      cl::sub(timelineCommand),
      cl::desc("Ends the names of what is one process's of several")};
  cl::opt<uint64_t> lastKernels{
      "last-kernels", cl::cat(category), cl::sub(timelineCommand), cl::init(0),
      cl::desc("Of a capture with more kernels, the number of the "
               "latest that are read; 0 (default) reads all")};
  cl::opt<bool> mapped{
      "mapped", cl::cat(category), cl::sub(profileCommand),
      cl::sub(timelineCommand),
      cl::desc("Take the partitions and launch maps that lie in the "
               "folder")};
  cl::opt<bool> asJSON{"json", cl::cat(category), cl::sub(reportCommand),
                       cl::sub(launchesCommand), cl::desc("Print JSON")};
  cl::opt<std::string> html{"html", cl::cat(category), cl::value_desc("file"),
                            cl::sub(reportCommand),
                            cl::desc("Write an HTML page")};
  cl::opt<std::string> perfetto{
      "perfetto", cl::cat(category), cl::value_desc("file"),
      cl::sub(reportCommand),
      cl::desc("Write a trace for Perfetto, of one recording or of several")};
  cl::opt<std::string> ceilings{
      "ceilings", cl::cat(category), cl::value_desc("file"),
      cl::sub(reportCommand),
      cl::desc("What `opprof ceilings` measured of the device")};
  cl::opt<unsigned> width{"width",
                          cl::cat(category),
                          cl::sub(reportCommand),
                          cl::sub(profileCommand),
                          cl::sub(filesCommand),
                          cl::sub(diffCommand),
                          cl::sub(topCommand),
                          cl::sub(explainCommand),
                          cl::sub(launchesCommand),
                          cl::init(opprof::report::TextOptions().width),
                          cl::desc("Columns of the page on stdout")};
  cl::opt<bool> color{"color-page",
                      cl::cat(category),
                      cl::sub(reportCommand),
                      cl::sub(profileCommand),
                      cl::sub(filesCommand),
                      cl::sub(diffCommand),
                      cl::sub(topCommand),
                      cl::sub(explainCommand),
                      cl::desc("Color the page on stdout")};
  cl::opt<bool> noPage{"no-page", cl::cat(category), cl::sub(profileCommand),
                       cl::sub(filesCommand),
                       cl::desc("Print no page on stdout")};
  cl::opt<double> errorBudget{
      "error-budget", cl::cat(category), cl::sub(recommendCommand),
      cl::desc("The relative error that a rewrite may bring")};
  cl::opt<std::string> rules{
      "rules", cl::cat(category), cl::sub(recommendCommand),
      cl::desc("A folder of scripts that are offered like those of rules")};
  cl::opt<std::string> line{"line", cl::cat(category), cl::sub(launchesCommand),
                            cl::desc("Only launches of this source line")};
  cl::opt<std::string> module{"module", cl::cat(category),
                              cl::sub(launchesCommand),
                              cl::desc("Only launches of this module")};
  cl::opt<std::string> node{"node", cl::cat(category), cl::sub(launchesCommand),
                            cl::desc("Only launches of this node")};
  cl::opt<std::string> kernel{
      "kernel", cl::cat(category), cl::sub(launchesCommand),
      cl::desc("Only launches of kernels with this in their name")};
};
} // namespace

opprof::report::TextOptions CommandLine::getPageOptions() const {
  opprof::report::TextOptions options;
  options.width = width;
  options.color = color;
  return options;
}

/// What --by says; absent where it is not given.
Expected<std::optional<opprof::profile::ItemKind>>
CommandLine::getKind() const {
  using namespace opprof::profile;
  if (by.empty())
    return std::nullopt;
  if (std::optional<ItemKind> kind = parseItemKind(by))
    return kind;
  return createStringError(
      "--by=" + by + ": is none of node, class, module, kernel, operator");
}

Error CommandLine::runDiff(int &status) {
  Expected<std::optional<opprof::profile::ItemKind>> kind = getKind();
  if (!kind)
    return kind.takeError();
  if (to.empty())
    return createStringError(
        "there is nothing to compare with\n  give it: --to=PATH");
  DifferenceOptions options;
  options.by = *kind;
  options.form = differenceForm;
  options.page = getPageOptions();
  if (failAbove.getNumOccurrences()) {
    if (!(failAbove >= 0))
      return createStringError("--fail-above: is no share of a step");
    options.failAbovePct = failAbove;
  }
  std::vector<std::string> from = {path};
  append_range(from, others);
  Expected<CheckResult> result = showDifference(
      from, std::vector<std::string>(to.begin(), to.end()), options);
  if (!result)
    return result.takeError();
  status = *result == CheckResult::Slower    ? 3
           : *result == CheckResult::Unknown ? 4
                                             : 0;
  return Error::success();
}

void CommandLine::parse(int argc, char **argv) {
  for (cl::SubCommand *command : cl::getRegisteredSubcommands())
    cl::HideUnrelatedOptions(category, *command);
  cl::ParseCommandLineOptions(argc, argv, "opprof's driver\n");
}

Error CommandLine::run(int &status) {
  if (diffCommand)
    return runDiff(status);
  if (topCommand) {
    Expected<std::optional<opprof::profile::ItemKind>> kind = getKind();
    if (!kind)
      return kind.takeError();
    return showTop(path, *kind, number, getPageOptions());
  }
  if (explainCommand)
    return showExplanation(path, ofRun, getPageOptions());
  RunFolder folder(path, process);
  if (checkCommand)
    return folder.check();
  if (clearCommand)
    return folder.clear();
  if (metricsCommand)
    return showMetrics(names);
  if (!filesCommand && sys::fs::is_directory(path))
    if (Error error = folder.checkFiles())
      return error;
  if (selectCommand)
    return selectLaunches(folder, step);
  if (deriveCommand)
    return deriveMetrics(path);
  if (reportCommand) {
    if (asJSON + !html.empty() + !perfetto.empty() > 1)
      return createStringError("--json, --html and --perfetto are forms: give "
                               "one of them");
    ReportForm form = asJSON         ? ReportForm::JSON
                      : html.empty() ? ReportForm::Text
                                     : ReportForm::HTML;
    std::vector<std::string> paths = {path};
    append_range(paths, others);
    if (!perfetto.empty())
      return writePerfetto(paths, perfetto);
    return showReport(paths, form, html, ceilings, getPageOptions());
  }
  Session session(elapsed);
  if (timelineCommand)
    return profileTimeline(session, folder, timeline, observed, graph,
                           countersFile, mapped, lastKernels);
  if (importCommand)
    return importGraph(session, path, archive, output);
  if (mapCommand)
    return mapRun(session, folder);
  if (recommendCommand) {
    std::optional<double> budget;
    if (errorBudget.getNumOccurrences())
      budget = errorBudget;
    return recommendRewrites(session, path, output, budget, rules);
  }
  if (launchesCommand)
    return showLaunches(session, path, graph, {line, module, node, kernel},
                        asJSON, width.getNumOccurrences() ? width : 0);
  Page page;
  if (!noPage)
    page = getPageOptions();
  if (profileCommand)
    return profileRun(session, folder, mapped, page);
  return profileFiles(session, {graph, codeFolder, trace, countersFile}, folder,
                      page);
}

static int runDriver(int argc, char **argv) {
  // What it is ended by; whoever began it may ignore that.
  std::signal(SIGTERM, SIG_DFL);
  InitLLVM init(argc, argv);
  static CommandLine line;
  line.parse(argc, argv);
  if (cl::SubCommand::getTopLevel()) {
    errs() << "opprof-driver: error: no command is given\n"
              "  `opprof-driver --help` lists the commands\n";
    return 1;
  }
  int status = 0;
  if (Error error = line.run(status)) {
    outs().flush();
    errs() << "opprof-driver: error: "
           << opprof::toTerminalLines(toString(std::move(error))) << '\n';
    return 1;
  }
  return status;
}

int main(int argc, char **argv) {
  // What begins this program without a launcher is begun anew; where that is
  // not possible, or a loader was given the program, it goes on without.
  char self[PATH_MAX] = {};
  if (::readlink("/proc/self/exe", self, sizeof(self) - 1) > 0 &&
      sys::path::filename(self) == "opprof-driver" && opprof::askForHugePages())
    ::execv(self, argv);
  opprof::keepHugePagesFromChildren();
  opprof::endWithParent();

  StringRef name = argc ? sys::path::filename(argv[0]) : StringRef();
  auto *tool = StringSwitch<int (*)(int, char **)>(name)
                   .Case("opprof-opt", opprof::runOpt)
                   .Case("opprof-translate", opprof::runTranslate)
                   .Case("opprof-lsp-server", opprof::runLspServer)
                   .Default(runDriver);
  // Where processes are listed, it goes by the name that it was begun by.
  ::prctl(PR_SET_NAME, name.str().c_str());
  return tool(argc, argv);
}
