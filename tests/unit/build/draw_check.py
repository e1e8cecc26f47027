# SPDX-License-Identifier: BSD-3-Clause
"""Which mutations tests/mutants/mutations.py finds in a source, and which of them draw.py refuses. See draw_test.sh.

Usage: draw_check.py BUILD_DIR SOURCE_DIR
"""
import pathlib
import sys
import tempfile

build, source = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
sys.path.insert(0, str(source / "tests/mutants"))
import draw  # noqa: E402
import mutations  # noqa: E402

# A mutation of each line of `expected`, and of no other
SAMPLE = r"""#define LIMIT (1 + 2)
static const int table[] = {1, 2};
static ncclResult_t first(struct x *x, int n)
{
	int from = n, *at = &from;
	struct y *y = x->y;

	/* if (n == 1) n = 2; */
	WARN("rank %d: n == 1 + %d", n + 1, !n);
	ASSERT(n < 3 && x);
	x->n = from;
	f(x,
	  n);
	if (n == LIMIT)
		n++;
	while (x->a && !x->b)
		continue;
	if (n != LIMIT || n < *at)
		return ncclSystemError;
	if (n <= LIMIT)
		g("n > 1");
	if (n > LIMIT)
		at = &x->end;
	for (; n >= LIMIT;)
		break;
	x->n = n + from;
	*at = n - from;
	x->m = 3u;
	return ncclSuccess;
}

static int second(void)
{
	return -1;
}
"""
EXPECTED = {
    11: "assignment_deleted", 12: "call_deleted", 14: "not_equal condition_negated", 15: "assignment_deleted",
    16: "or not_dropped condition_negated", 17: "continue_removed", 18: "equal and less_or_equal condition_negated",
    19: "success_returned", 20: "less condition_negated", 21: "call_deleted", 22: "greater_or_equal condition_negated",
    23: "assignment_deleted", 24: "greater", 25: "break_removed", 26: "assignment_deleted minus",
    27: "assignment_deleted plus", 28: "assignment_deleted next_number", 34: "next_number",
}


def check_sample():
    found = {}
    for m in mutations.mutations(SAMPLE):
        line = SAMPLE.count("\n", 0, m.start) + 1
        found.setdefault(line, set()).add(m.operator)
        assert m.function == ("second" if line > 30 else "first"), (line, m)
        new = SAMPLE[: m.start] + m.new + SAMPLE[m.end :]
        assert new != SAMPLE and new.count("\n") == SAMPLE.count("\n"), m
    expected = {line: set(text.split()) for line, text in EXPECTED.items()}
    for line in sorted(expected.keys() | found.keys()):
        assert found.get(line) == expected.get(line), f"line {line}: {found.get(line)}, expected {expected.get(line)}"
    assert set().union(*found.values()) == set(mutations.OPERATORS)


def check_core(units):
    texts = {f: (source / f).read_text() for f in draw.eligible(units, source)}
    sites = [s for f, text in texts.items() for s in draw.sites_of("1", f, text)]
    drawn = {s.mutation().operator for s in sites}
    missing = set(mutations.OPERATORS) - drawn
    assert not missing, f"operators that no line of core draws: {missing}"
    assert not [f for f in texts if not f.startswith("core/") or f.startswith("core/os/")]
    assert "core/proxy/send.c" in texts and "core/device/programs/all_reduce.h" in texts
    assert "core/base/shared.h" not in texts, "part of nearly each source"


def check_refused(units):
    file = "core/tune/allowed.c"
    unit = [u for u in units if u.file == file]
    text = (source / file).read_text()
    with tempfile.TemporaryDirectory() as root:
        scratch = draw.Scratch(pathlib.Path(root), build, source)
        for end, expected in (
            ("/* the same */\n", "same objects"),
            ("int draw_check(void\n", "does not compile"),
            ("static void draw_check(void)\n{\n}\n", "does not compile"),  # unused
        ):
            assert scratch.objects(unit, file, text + end) == expected, end
        found = scratch.objects(unit, file, text + "int draw_check(void);\nint draw_check(void)\n{\n\treturn 1;\n}\n")
        assert list(found) == [unit[0].object], found


def main():
    check_sample()
    units = draw.units_of(build, source)
    check_core(units)
    check_refused(units)


if __name__ == "__main__":
    main()
