#!/usr/bin/env python3
# Finds what the documentation says that is not so: links, paths, parameters, options of our tools.
# SPDX-License-Identifier: BSD-3-Clause
#
#   check-docs.py [--docs DIR] [--facts DIR] [--blocks DIR] [CHECK...]
#
# CHECK: links, paths, parameters, options. Prints one finding a line, "CHECK: FILE:LINE: what", and
# ends with status 1 if there are any. --docs: a folder with README.md and docs/ (the source tree).
# The built tools and the component are found by BUILD and PREFIX. --facts keeps what the tools said,
# so that the next run need not ask again. --blocks writes the marked commands, see below.
#
# A block of commands that can be run in seconds has a comment before it, which readers do not see:
#
#   <!-- test: [hosts=ib|roce] [seconds=N] [status=N] [copy] [when=VARIABLE] [match=REGEX] -->
#
# --blocks writes for each of them DIR/NN.sh, the commands, and DIR/NN, the lines "KEY VALUE" of the
# comment and "where FILE:LINE". The group docs, which runs them, says what the words mean.

import argparse
import glob
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("BUILD", os.path.join(TOP, "_build"))
PREFIX = os.environ.get("PREFIX", os.path.join(TOP, "_inst"))

# Made by what the page tells to run, or an example of a name.
MADE_LATER = re.compile(r"_build/(test-logs|kernel-logs|performance\.html|\.)|^deb/|_build-asan")
# Options in running text that are another program's: mpirun's, those of Open MPI's configure,
# valgrind's.
FOREIGN = re.compile(r"--(mca|map-by|bind-to|hostfile|enable-mca-\w+|with-btl-verbs|dump-before)$")


def pages(docs):
    found = [os.path.join(docs, name) for name in ("README.md", "CONTRIBUTING.md")]
    found += sorted(glob.glob(os.path.join(docs, "docs", "*.md")))
    return [page for page in found if os.path.exists(page)]


class Page:
    """A page's lines, each as (number, text, fenced)."""

    def __init__(self, path, docs):
        self.path = path
        self.name = os.path.relpath(path, docs)
        self.lines = []
        fenced = False
        with open(path, encoding="utf-8") as file:
            for number, text in enumerate(file.read().split("\n"), 1):
                fence = text.startswith("```")
                self.lines.append((number, text, fenced or fence))
                fenced = fenced != fence

    def text(self):
        """Lines of running text."""
        return [(number, text) for number, text, fenced in self.lines if not fenced]

    def code(self):
        """Code: what is in backticks, and each line of a block (continued lines as one)."""
        running = "\n".join("" if fenced else text for _, text, fenced in self.lines)
        for match in re.finditer(r"`([^`]+)`", running):
            # A table's cell ends at its bar; a span may go over the end of a line.
            if "\n\n" not in match.group(1):
                yield (running.count("\n", 0, match.start()) + 1,
                       re.sub(r"\s+", " ", match.group(1)), False)
        whole, start = "", 0
        for number, text, fenced in self.lines:
            indented = text.startswith("    ")
            if not (fenced or indented) or text.startswith("```"):
                continue
            start = start if whole else number
            whole += text
            if whole.endswith("\\"):
                whole = whole[:-1]
                continue
            yield start, whole, True
            whole = ""


def anchors(path):
    """The anchors of a page's headings, made as GitHub makes them."""
    result = set()
    for _, text in Page(path, TOP).text():
        if re.match(r"#+ ", text):
            text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text.lstrip("# ")).lower()
            slug = re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")
            number = 0
            while slug + ("-%d" % number if number else "") in result:
                number += 1
            result.add(slug + ("-%d" % number if number else ""))
    return result


def check_links(page, _facts):
    for number, text in page.text():
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", text)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            path = os.path.join(os.path.dirname(page.path), name) if name else page.path
            if not os.path.exists(path):
                yield number, "no such page: %s" % target
            elif anchor and anchor not in anchors(path):
                yield number, "no such heading: %s" % target


def exists(path):
    """Whether a path of the tree is there. NAME, GROUP and the like stand for any word."""
    if MADE_LATER.search(path):
        return True
    path = re.sub(r"(?<![A-Za-z_])[A-Z]{4,}(?![A-Za-z_.])|(?<![A-Za-z])(NAME|GROUP)(?![a-z])", "*",
                  path)
    path = re.sub(r"\{[^}]*\}", "*", path)
    path = re.sub(r"^_build\b", BUILD, re.sub(r"^_inst\b", PREFIX, path))
    places = [os.path.join(TOP, place, path) for place in ("", "shared", "tests/kernel")]
    return any(glob.glob(place) for place in places + [os.path.join(BUILD, path)])


def check_paths(page, facts):
    tops = set(name for name in os.listdir(TOP) if os.path.isdir(os.path.join(TOP, name)))
    tops |= {"_build", "_inst"} | set(
        name for name in os.listdir(os.path.join(TOP, "shared")))
    for number, text, _ in page.code():
        for word in re.findall(r"(?<![\w/$.=@{~-])(?:\./)?[\w.*-]+(?:/[\w.*{},[\]-]*)+", text):
            word = re.sub(r"^\./|[.,:]+$", "", word)
            if word.split("/")[0] in tops and not exists(word):
                yield number, "no such path: %s" % word
        for word in re.findall(r"(?<![\w./*$-])\./(\w[\w-]*)(?![\w/.-])", text):
            if word not in ("configure", "program", "my_program", "_inst") and not exists(word):
                yield number, "no such program: ./%s" % word
        for word in re.findall(r"(?<![\w./*-])((?:vrb|btl_verbs|test)_\w+\.[ch])(?!\w)", text):
            if word not in facts.files and not word.startswith("test_NAME"):
                yield number, "no such file: %s" % word


class Facts:
    """What the tools and Open MPI say, asked once."""

    def __init__(self, folder):
        self.folder = folder
        self.files = set()
        for place, folders, names in os.walk(TOP):
            folders[:] = [name for name in folders if not name.startswith(("_", ".git"))]
            self.files |= set(names)

    def ask(self, name, command):
        path = os.path.join(self.folder, name) if self.folder else None
        if path and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                return file.read()
        try:
            text = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=60, check=False,
                                  env=self.environment()).stdout.decode("utf-8", "replace")
        except OSError as error:
            text = str(error)
        if path:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return text

    @staticmethod
    def environment():
        """Ours alone: neither the user's parameters nor those of files."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith("OMPI_MCA_")}
        clean["OMPI_MCA_mca_base_param_files"] = "/dev/null"
        clean["OMPI_MCA_mca_base_component_path"] = os.path.join(PREFIX, "lib/openmpi")
        return clean

    def parameters(self):
        """Parameters and their defaults."""
        said = self.ask("ompi_info", ["ompi_info", "--param", "btl", "verbs", "--level", "9",
                                      "--parsable"])
        return dict(re.findall(r"^mca:btl:verbs:param:(btl_verbs_\w+):value:(.*)$", said, re.M))

    def counters(self):
        """Performance variables: ompi_info does not list them, their table in the source does."""
        names = set()
        for path in glob.glob(os.path.join(TOP, "component/*.c")) + \
                glob.glob(os.path.join(TOP, "shared/rail/*.c")):
            with open(path, encoding="utf-8") as file:
                names |= set(re.findall(r'"(\w+)"', file.read()))
        return names

    def help_of(self, tool):
        """What a tool's help says; None for what is no tool of ours."""
        name = os.path.basename(tool)
        places = {
            "quickstart": "quickstart", "runtests": "runtests", "vrbrun": "tests/lib/vrbrun",
            "soak": "tests/lib/soak", "compare": "benchmarks/compare",
            "compare_kernel": "benchmarks/compare_kernel", "instructions": "benchmarks/instructions",
            "run": "tests/kernel/run", "into-ompi-tree": "tools/into-ompi-tree",
            "configure": "configure",
        }
        if name in ("run", "instructions", "soak", "compare", "configure") and "/" not in tool:
            return None
        if name in places:
            command = os.path.join(TOP, places[name])
            said = self.ask(name, [command, "--help"])
            if name == "vrbrun":  # which hands options of the guest on
                return said + self.ask("run", [os.path.join(TOP, "tests/kernel/run"), "--help"])
            return said
        if name == "softhca-ctl":
            return self.ask(name, [os.path.join(BUILD, name), "--help"])
        if name in ("verbs_info", "verbs_stat"):
            return self.ask(name, [os.path.join(PREFIX, "bin", name), "--help"])
        if re.match(r"vrb_\w+$", name) and os.path.exists(os.path.join(BUILD, "benchmarks", name)):
            return self.ask(name, [os.path.join(BUILD, "benchmarks", name), "-h"])
        return None


def check_parameters(page, facts):
    known, counters = facts.parameters(), facts.counters()
    if not known:
        yield 0, "ompi_info knows no parameter of btl verbs"
        return
    columns = []
    for number, text, fenced in page.lines:
        for name in re.findall(r"\bbtl_verbs_(\w*[a-z0-9])\b(?!\.[ch])", text):
            if "Open MPI 5.0 and later" in text:
                continue  # not a parameter in every series
            if "btl_verbs_" + name not in known and name not in counters:
                yield number, "no such parameter or counter: btl_verbs_%s" % name
        cells = [cell.strip() for cell in text.split("|")]
        if text.startswith("|") and "parameter" in cells[1:2]:
            columns = cells
        elif not text.startswith("|"):
            columns = []
        row = re.match(r"\| `(btl_verbs_\w+)` \|", text)
        if row and "default" in columns and row.group(1) in known:
            said = cells[columns.index("default")].strip("`")
            is_so = known[row.group(1)]
            if {"0": "false", "1": "true"}.get(said) != is_so and said != is_so and \
                    (said, is_so) != ("empty", "") and said != "the port's":
                yield number, "the default of %s is %s" % (row.group(1), is_so)
    if page.name == "docs/parameters.md":
        text = "\n".join(text for _, text, _ in page.lines)
        for name in known:
            if name != "btl_verbs_version" and not re.search(r"\b%s\b" % name, text):
                yield 0, "%s is not explained" % name


def words_of(text):
    """Commands of a line, each a list of words; comments and what comes after -- dropped."""
    text = re.sub(r"(^|\s)#.*", "", text)
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "QUOTED", text)
    for command in re.split(r"[|;&(){}]+|\$\(", text):
        words = command.split()
        while "--" in words:
            # What follows is a command of its own.
            yield words[:words.index("--")]
            words = words[words.index("--") + 1:]
        yield words


def known_option(option, said):
    # What has just answered to --help has it, whether it says so or not.
    return option == "--help" or \
        re.search(r"(?<![\w-])%s(?![\w-])" % re.escape(option), said) is not None


def check_options(page, facts):
    everything = ""
    for tool in ("quickstart", "runtests", "vrbrun", "tests/lib/soak", "benchmarks/compare",
                 "tests/kernel/run", "into-ompi-tree", "./configure", "verbs_info", "verbs_stat",
                 "vrb_latency"):
        everything += facts.help_of(tool) or ""
    for number, text, fenced in page.code():
        for words in words_of(text):
            tool = None
            for place, word in enumerate(words):
                said = facts.help_of(word) if not word.startswith("-") else None
                # A value such as "quickstart" or "run" in the middle of a command is no tool.
                if said is not None and (place == 0 or "/" in word or tool is None):
                    tool, start = word, place
                    if said == "" or "No such file" in said:
                        yield number, "%s has no help" % word
                        break
                    continue
                if tool is None:
                    if not fenced and place == 0 and re.match(r"--\w[\w-]+", word):
                        option = re.match(r"--[\w-]+", word).group(0)
                        if not FOREIGN.match(option) and not known_option(option, everything):
                            yield number, "no tool has the option %s" % option
                    continue
                match = re.match(r"(--?[A-Za-z][\w-]*)", word)
                if match and words[place - 1] != "--arg":
                    option = match.group(1)
                    said = facts.help_of(tool)
                    if os.path.basename(tool) == "configure" and \
                            not known_option(option, said) and \
                            known_option(option.replace("enable", "disable", 1), said):
                        continue
                    if not known_option(option, said):
                        yield number, "%s has no option %s" % (tool, option)
                elif os.path.basename(tool) == "softhca-ctl" and place == start + 1 and \
                        not known_option(word, facts.help_of(tool)):
                    yield number, "%s has no command %s" % (tool, word)


def write_blocks(docs, folder):
    os.makedirs(folder, exist_ok=True)
    count = 0
    for path in pages(docs):
        page = Page(path, docs)
        where = 0
        marker, inside, body = None, False, []
        for number, text, fenced in page.lines:
            comment = re.match(r"<!-- test:(.*)-->$", text)
            if comment and not fenced:
                marker, where, body = comment.group(1).strip(), number, []
            elif marker is not None and text.startswith("```"):
                if inside:
                    count += 1
                    base = os.path.join(folder, "%02d" % count)
                    with open(base + ".sh", "w", encoding="utf-8") as file:
                        file.write("\n".join(body) + "\n")
                    with open(base, "w", encoding="utf-8") as file:
                        file.write("where %s:%d\n" % (page.name, where))
                        settings, _, regex = marker.partition("match=")
                        for word in settings.split():
                            key, _, value = word.partition("=")
                            file.write("%s %s\n" % (key, value))
                        if regex:
                            file.write("match %s\n" % regex)
                    marker = None
                inside = not inside
            elif marker is not None and inside:
                body.append(text)
        if marker is not None:
            sys.exit("%s:%d: no block of commands after the comment" % (page.name, where))


CHECKS = {"links": check_links, "paths": check_paths, "parameters": check_parameters,
          "options": check_options}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--docs", default=TOP)
    parser.add_argument("--facts", default="")
    parser.add_argument("--blocks", default="")
    parser.add_argument("check", choices=list(CHECKS), nargs="*", metavar="CHECK")
    arguments = parser.parse_args()
    if arguments.blocks:
        write_blocks(arguments.docs, arguments.blocks)
    facts = Facts(arguments.facts)
    status = 0
    for name in arguments.check:
        for path in pages(arguments.docs):
            page = Page(path, arguments.docs)
            for number, what in sorted(set(CHECKS[name](page, facts))):
                print("%s: %s:%d: %s" % (name, page.name, number, what))
                status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
