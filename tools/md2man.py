#!/usr/bin/env python3
# Writes a page of docs/ as a man page: md2man.py NAME SECTION "one line" "whatis" <page.md >page.7
# SPDX-License-Identifier: BSD-3-Clause
#
# Understands what the pages of docs/ are made of: headings, paragraphs, tables, lists, blocks of
# code, `code`, *emphasis*, **strong** and [links](to pages). The first heading is dropped: a man page
# has its own. Of a table with a name in its first column, each row becomes a tagged paragraph.

import re
import sys


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text)


def inline(text):
    """Markdown of one line or cell to roff."""
    parts = re.split(r"(`[^`]*`|\*\*[^*]+\*\*|\*[^*]+\*|\[[^]]*\]\([^)]*\))", text)
    out = []
    for part in parts:
        if part.startswith("`"):
            out.append("\\fB" + escape(part[1:-1]).lstrip("\\&") + "\\fR")
        elif part.startswith("**"):
            out.append("\\fB" + escape(part[2:-2]) + "\\fR")
        elif part.startswith("*") and len(part) > 2:
            out.append("\\fI" + escape(part[1:-1]) + "\\fR")
        elif part.startswith("["):
            words, target = re.match(r"\[([^]]*)\]\(([^)]*)\)", part).groups()
            out.append(escape(words) if words == target else
                       "%s (%s)" % (escape(words), escape(target)))
        else:
            out.append(part.replace("\\", "\\e").replace("-", "\\-"))
    text = "".join(out)
    return ("\\&" + text) if text[:1] in ".'" else text


def row_cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def table(lines):
    """A tagged paragraph for each row; the columns between name and meaning go into brackets."""
    heads = row_cells(lines[0])
    for line in lines[2:]:
        cells = row_cells(line)
        print(".TP")
        print(inline(cells[0]))
        middle = ["%s: %s" % (head, inline(cell))
                  for head, cell in zip(heads[1:-1], cells[1:-1]) if cell]
        text = inline(cells[-1])
        if middle:
            text = "[%s] %s" % ("; ".join(middle), text)
        print(text)


def convert(text):
    blocks = re.split(r"\n{2,}", text.strip())
    for block in blocks:
        lines = block.split("\n")
        if lines[0].startswith("# "):
            continue
        if lines[0].startswith("## "):
            print(".SH " + inline(lines[0][3:]))
            lines = lines[1:]
        if lines and lines[0].startswith("### "):
            print(".SS " + inline(lines[0][4:]))
            lines = lines[1:]
        if not lines:
            continue
        if lines[0].startswith("|"):
            table(lines)
        elif lines[0].startswith("    ") or lines[0].startswith("```"):
            print(".PP\n.RS 4\n.nf")
            for line in lines:
                if not line.startswith("```"):
                    print(escape(line[4:] if line.startswith("    ") else line))
            print(".fi\n.RE")
        elif lines[0].startswith("- "):
            for item in re.split(r"\n(?=- )", "\n".join(lines)):
                print(".IP \\(bu 2\n" + inline(" ".join(item[2:].split())))
        else:
            print(".PP\n" + inline(" ".join(line.strip() for line in lines)))


def main():
    if len(sys.argv) != 5:
        sys.exit('usage: md2man.py NAME SECTION "what it is" "what it does" <PAGE.md')
    name, section, what, does = sys.argv[1:]
    print('.\\" Made by tools/md2man.py from a page of docs/: change that page, then `make man`.')
    print('.\\" SPDX-License-Identifier: BSD-3-Clause')
    print('.TH %s %s "" "verbs" "%s"' % (name.upper(), section, what))
    print(".SH NAME\n%s \\- %s" % (name, escape(does)))
    print(".SH DESCRIPTION")
    convert(sys.stdin.read())
    print(".SH SEE ALSO\n.BR verbs_info (1),\n.BR verbs_stat (1),\n.BR mpirun (1),\n.BR ibv_devinfo (1)")


main()
