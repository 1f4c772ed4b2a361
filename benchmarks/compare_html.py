# The report of benchmarks/compare as one HTML page that needs nothing else.
# SPDX-License-Identifier: BSD-3-Clause

import html as escape_html
import re

import compare_plot as plot
import compare_report as report

STYLE = """
:root { color-scheme: light dark;
  --page: #ffffff; --box: #f6f7f9; --text: #1c2128; --soft: #59636e; --line: #d5dae0;
  --good: #116329; --bad: #a40e26;
  --verbs: #0a58ca; --verbs-ud: #6f9fe8; --verbs-auto: #0b7285; --ucx: #d9480f; --openib: #8a5a00;
  --tcp: #868e96; --ofi: #9c36b5; --raw: #2b8a3e; }
@media (prefers-color-scheme: dark) { :root {
  --page: #14171c; --box: #1d2128; --text: #e4e7eb; --soft: #9aa4b0; --line: #363d47;
  --good: #5bc47a; --bad: #ff8585;
  --verbs: #62a5ff; --verbs-ud: #a8c8ff; --verbs-auto: #4cc9d9; --ucx: #ff9a57; --openib: #d9b352;
  --tcp: #8b949e; --ofi: #d38bea; --raw: #69c77f; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.2rem 1rem 4rem; max-width: 76rem; background: var(--page);
  color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: .4rem 0; } h2 { font-size: 1.25rem; margin: 2.4rem 0 .6rem;
  border-bottom: 1px solid var(--line); padding-bottom: .2rem; }
p, ul { max-width: 48rem; } li { margin: .25rem 0; }
code { font-family: ui-monospace, monospace; font-size: .88em; overflow-wrap: anywhere; }
pre { background: var(--box); border: 1px solid var(--line); border-radius: 6px; padding: .7rem;
  overflow-x: auto; font-size: .82rem; }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; margin: .6rem 0 1.2rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .7rem; text-align: right; border-bottom: 1px solid var(--line);
  vertical-align: top; white-space: nowrap; }
tr:last-child td { border-bottom: 0; } th { background: var(--box); font-weight: 600; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0;
  background: var(--page); } th:first-child { background: var(--box); }
table.aims td:first-child { white-space: normal; min-width: 9rem; }
table.aims td:nth-child(2), table.aims th:nth-child(2) { text-align: left; }
table.facts td { text-align: left; white-space: normal; } table.facts th { text-align: left; }
.range { display: block; color: var(--soft); font-size: .78rem; }
.met { color: var(--good); } .missed { color: var(--bad); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 30rem), 1fr));
  gap: 1rem; } figure { margin: 0; } figcaption { font-weight: 600; margin: .4rem 0; }
svg { width: 100%; height: auto; display: block; }
details { margin: .8rem 0; } summary { cursor: pointer; font-weight: 600; }
"""


def marked(text):
    """Text with `code` in it."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", escape_html.escape(text, quote=False))


def cell(text):
    """A figure with the range of the rounds below it, a verdict in its colour."""
    found = re.match(r"(.*\d) \((.* \.\. .*)\)$", text)
    if found:
        return '%s<span class="range">%s</span>' % (
            marked(found.group(1)), marked(found.group(2).replace(" .. ", " – ")))
    for verdict in ("met", "missed"):
        if text == verdict or text.startswith(verdict + ","):
            return '<span class="%s">%s</span>' % (verdict, marked(text))
    return marked(text)


def table(header, rows):
    kind = {"what": ' class="facts"', "figure": ' class="aims"'}.get(header[0], "")
    text = '<div class="wide"><table%s>\n<tr>%s</tr>\n' % (
        kind, "".join("<th>%s</th>" % marked(name) for name in header))
    for row in rows:
        text += "<tr>%s</tr>\n" % "".join("<td>%s</td>" % cell(value) for value in row)
    return text + "</table></div>\n"


def figure(run, block):
    drawn = plot.svg(run, block[1], block[2], block[3])
    if drawn is None:
        return "<p>No plot: gnuplot is not installed (Debian's package gnuplot-nox).</p>\n"
    return "<figure><figcaption>%s</figcaption>\n%s</figure>\n" % (marked(block[3]), drawn)


def html(run):
    """Plots stand together at the head of their link's part, the tables below them."""
    blocks, body, waiting = report.blocks_of(run), "", ""

    def flush():
        nonlocal waiting
        tables, waiting = waiting, ""
        return tables

    for index, block in enumerate(blocks):
        kind = block[0]
        if kind in ("h1", "h2"):
            body += flush() + "<%s>%s</%s>\n" % (kind, marked(block[1]), kind)
            plots = []
            for later in blocks[index + 1:]:
                if later[0] in ("h1", "h2"):
                    break
                plots += [figure(run, later)] if later[0] == "plot" else []
            body += '<div class="plots">%s</div>\n' % "".join(plots) if plots else ""
        elif kind == "p":
            waiting += "<p>%s</p>\n" % marked(block[1])
        elif kind == "table":
            waiting += table(block[1], block[2])
        elif kind == "list":
            waiting += "<ul>%s</ul>\n" % "".join("<li>%s</li>" % marked(i) for i in block[1])
        elif kind == "pre":
            waiting += "<pre>%s</pre>\n" % escape_html.escape(block[1], quote=False)
    body += flush()
    return ('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            "<title>verbs beside its peers, %s</title>\n<style>%s</style></head>\n<body>\n%s"
            "</body></html>\n" % (escape_html.escape(run["date"]), STYLE, body))
