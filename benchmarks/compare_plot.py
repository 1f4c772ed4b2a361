# Curves of benchmarks/compare: gnuplot's SVG, made to take its colours from the page it stands in.
# SPDX-License-Identifier: BSD-3-Clause

import re
import shutil
import subprocess

import compare_report as report

# gnuplot is given these, and the page's style says what they mean in light and dark.
TEXT, GRID = "#010203", "#040506"
MARKS = {"verbs": 7, "verbs-ud": 5, "verbs-auto": 9, "ucx": 6, "openib": 4, "tcp": 8, "ofi": 10,
         "raw": 1}


def placeholder(peer):
    return "#0a0b%02x" % (list(report.NAMES).index(peer) + 16)


def ticks(sizes):
    """Every fourth power of two has a name: more would run into each other on a phone."""
    names = []
    size = 1
    while size <= max(sizes):
        if size >= min(sizes):
            name = report.size_name(size).replace("iB", "").replace(" B", "").replace(" ", "")
            names.append('"%s" %d' % (name, size))
        size *= 8
    return "(" + ", ".join(names) + ")"


def script(run, link, test, title, peers):
    sizes = [size for size in report.sizes_of(run, link, test) if size > 0]
    unit = "half round trip (us)" if test == "lat" else "bandwidth (10^6 bytes/s)"
    lines = ['set terminal svg size 640,480 dynamic enhanced font "sans-serif,17" linewidth 1.6 '
             'name "%s_%s"' % (link, test),
             'set encoding utf8', 'set logscale x 2', 'set logscale y 10',
             'set border 3 linecolor rgb "%s" linewidth 0.6' % TEXT,
             'set xtics nomirror textcolor rgb "%s" %s' % (TEXT, ticks(sizes)),
             'set ytics nomirror textcolor rgb "%s" format "%%g"' % TEXT,
             'set grid xtics ytics linecolor rgb "%s" linewidth 0.5 linetype 1' % GRID,
             'set xlabel "message size (bytes)" textcolor rgb "%s"' % TEXT,
             'set ylabel "%s" textcolor rgb "%s"' % (unit, TEXT),
             'set key outside top center horizontal maxrows 4 width -2 textcolor rgb "%s" samplen 2' % TEXT,
             'set xrange [%d:%d]' % (min(sizes), max(sizes))]
    data, curves = [], []
    for i, peer in enumerate(peers):
        points = ["%d %.6g" % (size, report.median(run, link, peer, "%s %d" % (test, size)))
                  for size in sizes if report.median(run, link, peer, "%s %d" % (test, size))]
        data.append("$d%d << END\n%s\nEND" % (i, "\n".join(points)))
        curves.append('$d%d using 1:2 with linespoints linewidth %s pointtype %d pointsize 0.7 '
                      'linecolor rgb "%s" title "%s"' % (
                          i, "2.2" if peer == "verbs" else "1.2", MARKS[peer], placeholder(peer),
                          report.NAMES[peer]))
    return "\n".join(data + lines + ["plot " + ", \\\n ".join(curves)]) + "\n"


def svg(run, link, test, title):
    """The plot as an <svg> element, or None without gnuplot or figures."""
    peers = [p for p in report.peers_of(run, link)
             if any(key.split()[0] == test and int(key.split()[1]) > 0
                    for key in run["results"][link][p])]
    if not peers or not shutil.which("gnuplot"):
        return None
    done = subprocess.run(["gnuplot"], input=script(run, link, test, title, peers), text=True,
                          capture_output=True, check=False)
    if done.returncode != 0 or "<svg" not in done.stdout:
        return None
    text = done.stdout[done.stdout.index("<svg"):]
    text = re.sub(r"<title>.*?</title>", "", text, flags=re.S)
    # the ids of one plot must not be those of another on the same page
    own = "%s-%s-" % (link, test)
    text = re.sub(r"\bid='([^']*)'", r"id='%s\1'" % own, text)
    text = re.sub(r"href='#([^']*)'", r"href='#%s\1'" % own, text)
    text = re.sub(r"url\(#([^)]*)\)", r"url(#%s\1)" % own, text)
    for peer in peers:
        text = colour(text, placeholder(peer), "var(--%s)" % peer)
    text = colour(colour(text, TEXT, "var(--text)"), GRID, "var(--line)")
    return text.replace("<svg", '<svg role="img" aria-label="%s, %s"' % (
        title, report.LINKS[link]), 1)


def colour(text, from_rgb, to_variable):
    """gnuplot writes rgb(  1,   2,   3), or #010203 in older versions."""
    numbers = [int(from_rgb[i:i + 2], 16) for i in (1, 3, 5)]
    text = re.sub(r"rgb\(\s*%d,\s*%d,\s*%d\)" % tuple(numbers), to_variable, text)
    return re.sub(from_rgb, to_variable, text, flags=re.I)
