#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# libdoppel and libnccl.so.2 export what NCCL 2.32.3 exports, and nothing else: 97 functions, and for 96 of them a twin
# at the same address. nccl.h and nccl_device.h declare the same functions. libnccl.so.2 has the soname that programs
# look for, and loads with all symbols bound.
set -euo pipefail
build_dir=$1 source_dir=$2
names="
AllGather AllGatherConfig AllReduce AllReduceConfig AlltoAll AlltoAllConfig Bcast Broadcast BroadcastConfig
CommAbort CommCount CommCuDevice CommDeregister CommDestroy CommFinalize CommGetAsyncError CommGetUniqueId
CommGrow CommInitAll CommInitRank CommInitRankConfig CommInitRankScalable CommMemStats CommQueryProperties
CommRegister CommResume CommRevoke CommShrink CommSplit CommSuspend CommUserRank CommWindowDeregister
CommWindowRegister DevCommCreate DevCommDestroy Gather GatherConfig GetCftDeviceLeInfo GetErrorString
GetLastError GetLsaDevicePointer GetLsaMultimemDevicePointer GetMultimemDeviceLeInfo
GetMultimemDevicePointer GetPeerDeviceLeInfo GetPeerDevicePointer GetUniqueId GetVersion
GinBarrierCreateRequirement GinInboxA2ACreateRequirement GinOutboxCreateRequirement GroupEnd
GroupSimulateEnd GroupStart LLA2ACalcSlots LLA2ACreateRequirement LsaBarrierCreateRequirement MemAlloc
MemFree ParamBind ParamDumpAll ParamGet ParamGetAllParameterKeys ParamGetI16 ParamGetI32 ParamGetI64
ParamGetI8 ParamGetParameter ParamGetStr ParamGetU16 ParamGetU32 ParamGetU64 ParamGetU8 PutSignal Recv
RedOpCreatePreMulSum RedOpDestroy Reduce ReduceConfig ReduceScatter ReduceScatterConfig ResetDebugInit
Scatter ScatterConfig Send SetEncryption Signal TeamCft TeamCftMultimem TeamLsa TeamRail TeamRankToLsa
TeamRankToWorld TeamWorld WaitSignal WinGetUserPtr
"
twins=$(for n in $names; do echo "nccl$n" "pnccl$n"; done | tr ' ' '\n' | LC_ALL=C sort)
# NCCL's own: it has no twin, and no header declares it
expected=$(echo "$twins ncclResetDebugInitInternal" | tr ' ' '\n' | LC_ALL=C sort)
[ "$(echo "$expected" | grep -c '^nccl')" = 97 ] || { echo "the list of this test does not have 97 names"; exit 1; }

# functions of teams are inline in the header, and no symbols
inline='^nccl(GetResourceBufferOffset|Team(InnerFactor|OuterFactor|RankIn\w+|RankIsMember|RankToTeam))$'
header=$(cc -E -P -I"$source_dir/backends/fakecuda/include" -x c "$source_dir/core/include/nccl_device.h" |
	tr '\n' ' ' | grep -oE '\bp?nccl[A-Z][A-Za-z0-9]* *\(' | tr -d ' (' | grep -vE "$inline" | LC_ALL=C sort -u)
diff <(echo "$twins") <(echo "$header") || { echo "the list of this test (<) and the headers (>) differ"; exit 1; }
for lib in "$build_dir/libdoppel.so" "$build_dir/libnccl.so.2"; do
	[ -f "$lib" ] && [ ! -L "$lib" ] || { echo "no library $lib"; exit 1; }
	soname=$(readelf -d "$lib" | sed -n 's/.*SONAME.*\[\(.*\)\].*/\1/p')
	[ "$soname" = "$(basename "$lib")" ] || { echo "$lib has the soname '$soname'"; exit 1; }
	exported=$(nm -D --defined-only "$lib" | awk '{print $3}' | LC_ALL=C sort -u)
	diff <(echo "$expected") <(echo "$exported") || { echo "NCCL 2.32.3 (<) and $lib (>) differ"; exit 1; }
	bad=$(nm -D --defined-only "$lib" | awk '
		{ at[$3] = $1; kind[$3] = $2 }
		END {
			for (n in at) if (n !~ /^p/ && n != "ncclResetDebugInitInternal" &&
					(at["p" n] != at[n] || kind[n] != "W" || kind["p" n] != "T"))
				print n, kind[n], at[n], kind["p" n], at["p" n]
		}')
	[ -z "$bad" ] || { echo "no weak name with a strong twin at one address: $bad"; exit 1; }
	echo "$(basename "$lib"): $(echo "$exported" | wc -l) symbols"
done

# a program finds each of them at run time
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/load.c" <<'END'
void *dlopen(const char *name, int mode), *dlsym(void *library, const char *name);
char *dlerror(void);
int puts(const char *text), printf(const char *format, ...);
int main(int argc, char **argv)
{
	void *library = dlopen(argv[1], 2 /* RTLD_NOW */);
	int missing = 0;

	if (!library)
		return puts(dlerror()), 1;
	for (int i = 2; i < argc; i++)
		if (!dlsym(library, argv[i]))
			missing += printf("not found: %s\n", argv[i]) > 0;
	return missing != 0;
}
END
cc -o "$work/load" "$work/load.c" -ldl
# shellcheck disable=SC2086 # the names are words
"$work/load" "$build_dir/libnccl.so.2" $expected
echo "all are found at run time"
