#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The page of doppel report in a browser: its program draws the timeline, and logs no error. Skipped without chromium.
# Usage: report_browser_test.sh BUILD_DIR SOURCE_DIR
set -u
# shellcheck source=tests/lib.sh
. "$2/tests/lib.sh"
browser=$(type -P chromium) || { echo "not installed: chromium (no other test needs it)"; exit 77; }
need_doubles "$1"
test_begin "$1"

# drawn_page DIR: the page as the browser has it when its program has run, in `dom`
drawn_page() {
	"$doppel" report "$1" -o page.html >out 2>&1 || fail "report $1: $(cat out)"
	timeout 120 "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" \
		--enable-logging=stderr --virtual-time-budget=4000 --dump-dom "file://$work/page.html" >dom 2>log ||
		{ fail "chromium: $?: $(tail -3 log)"; return; }
	! grep -q ':CONSOLE' log || fail "$1: the page logs: $(grep -m3 ':CONSOLE' log)"
	grep -qE '<body data-ready="[1-9]' dom || fail "$1: the program has not run to its end"
}

echo 'fabric.link host=1 after=500us down' >plan
"$doppel" run all_reduce --hosts 2 --gpus 2 -b 64K -e 64K --env NCCL_IB_TIMEOUT=22 --budget-time 1 --faults plan \
	--fail-dir link >run.out 2>&1
drawn_page link/*
# a row for each task, a select for the channels, and a canvas for lanes and links
[ "$(grep -o '<canvas' dom | wc -l)" = 2 ] || fail "expected two canvases: $(grep -o '<canvas' dom | wc -l)"
grep -q '<select><option value="0">' dom || fail "no choice of a channel"
grep -q '<button>first fault</button>' dom || fail "no button for the first fault"

mv link/* 'evil"><script>alert(3)<'
sed -i 's|^found-message .*|found-message </script><script>alert(1)</script><img src=x onerror=alert(2)>|' evil*/config
sed -i 's|rank0 main|rank0 </script><script>document.body.remove()</script>|' evil*/{trace,waits}.json
drawn_page evil*
grep -q 'At a glance' dom || fail "a name from outside has removed the page"
exit $bad
