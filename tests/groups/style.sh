#!/bin/bash
# group: layout, licence, length, layering and shell style of every tracked file
# timeout: 900
# SPDX-License-Identifier: BSD-3-Clause
set -u
# shellcheck source=../lib/tap.sh
. "$TOP/tests/lib/tap.sh"

while read -r name what; do
    tap_limit 400 "$TOP/tools/check-style.sh" "$name" >"$TAP_TMP/found" 2>&1
    status=$?
    case $status in
    0) tap_ok "$what" ;;
    77) tap_skip "$what" "$(head -n 1 "$TAP_TMP/found")" ;;
    *) tap_notok "$what" "$(head -n 40 "$TAP_TMP/found")" "status $status" ;;
    esac
done < <("$TOP/tools/check-style.sh" --list)

count=$("$TOP/tools/check-style.sh" --files | wc -l)
if [ "$count" -gt 60 ]; then
    tap_ok "the checks look at the whole tree"
else
    tap_notok "the checks look at the whole tree" "$count files only"
fi

# The checks themselves must find what they are there for: each gets a file that breaks its rule.
bait=$TAP_TMP/bait
mkdir -p "$bait/tools" "$bait/shared/wireup" "$bait/tests/lib" || exit 1
cp "$TOP/tools/check-style.sh" "$bait/tools/"
cp "$TOP/.clang-format" "$bait/"
note='SPDX-License-Identifier: BSD-3-Clause'
printf '/* Bait for the layout check. %s */\nint   f(void) {\n  return 1; }\n' "$note" >"$bait/format.c"
{
    printf '/* Bait for the length check. %s */\n' "$note"
    yes 'int prototype(void);' | head -n 900
} >"$bait/length.h"
printf '/* Bait for the column check. %s */\n/* %0120d */\n' "$note" 0 >"$bait/columns.h"
printf '/* Bait for the blanks check. %s */ \n' "$note" >"$bait/whitespace.h"
printf 'int no_licence;\n' >"$bait/spdx.h"
printf '/* Bait: %s: %s */\n' "TO""DO" "$note" >"$bait/leftovers.h"
# shellcheck disable=SC2016
printf '#!/bin/bash\n# %s\nrm $1\nif\n' "$note" >"$bait/shellcheck.sh"
printf '/* Bait for layers. %s */\n#include "opal/mca/btl/btl.h"\n' "$note" >"$bait/shared/layers.h"
printf '/* Bait for config. %s */\n#include "autoconf.h"\n' "$note" >"$bait/config.h"
printf '/* Bait for pure. %s */\n#include <infiniband/verbs.h>\nlong g(void) { return time(0); }\n' \
    "$note" >"$bait/shared/wireup/pure.h"
while read -r name what; do
    case $name in
    layers) file=shared/layers.h ;;
    pure) file=shared/wireup/pure.h ;;
    shellcheck | scripts) file=shellcheck.sh ;;
    *) file=$name ;;
    esac
    "$bait/tools/check-style.sh" "$name" >"$TAP_TMP/found" 2>&1
    status=$?
    if [ $status -eq 77 ]; then
        tap_skip "check $name finds a file that breaks its rule" "$(head -n 1 "$TAP_TMP/found")"
    elif [ $status -eq 1 ] && grep -q "$file" "$TAP_TMP/found"; then
        tap_ok "check $name finds a file that breaks its rule"
    else
        tap_notok "check $name finds a file that breaks its rule" "status $status" \
            "$(cat "$TAP_TMP/found")"
    fi
done < <("$TOP/tools/check-style.sh" --list)
tap_done
