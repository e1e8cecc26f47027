#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The drop-in exports the names of the installed libibverbs, each in its version node. Programs
# linked against that library load with every symbol bound. The runtime is inside the drop-in, and
# hidden.
set -euo pipefail
build=$1
ours=$build/verbs/libibverbs.so.1
[ -e "$ours" ] || { echo "no $ours in this preset"; exit 77; }
ldconfig=$(PATH=$PATH:/sbin:/usr/sbin command -v ldconfig)
known=$("$ldconfig" -p)
path_of() { awk -v n="$1" '$1 == n && !seen++ {print $NF}' <<<"$known"; }
theirs=$(path_of libibverbs.so.1)
[ -n "$theirs" ] || { echo "no libibverbs.so.1 installed"; exit 77; }
rc=0

# In node 1.0, names without @@ date from 2006; no current program has their structs.
names() { nm -D --defined-only "$1" | awk '{print $3}' | grep -v '[^@]@IBVERBS_1\.0$' | LC_ALL=C sort; }
missing=$(LC_ALL=C comm -23 <(names "$theirs") <(names "$ours"))
[ "$(names "$theirs" | wc -l)" -gt 140 ] || { echo "the installed library has too few names"; exit 1; }
if [ -n "$missing" ]; then
	printf 'not exported: %s\n' "$missing"
	rc=1
fi
# other names only of private nodes of other releases, and of newer calls
extra=$(nm -D --defined-only "$ours" | awk '{print $3}' | grep -vE '@IBVERBS_(PRIVATE_)?[0-9.]+$|^IBVERBS_' || true)
[ -z "$extra" ] || { printf 'exported without a version: %s\n' "$extra"; rc=1; }
exported=$(nm -D "$ours")
for node in 34 57 59 64 65; do
	for name in verbs_register_driver_$node ibv_query_gid_type verbs_set_ops; do
		grep -qE " $name@@?IBVERBS_PRIVATE_$node\$" <<<"$exported" ||
			{ echo "$name is not in IBVERBS_PRIVATE_$node"; rc=1; }
	done
done

case $(readelf -d "$build/libdoppel-rt.so" 2>/dev/null) in
*libasan* | *libtsan*) echo "the rest needs programs without a sanitizer"; exit $rc ;;
esac
# shellcheck source=dropin/tests/library/newer.sh
. "$2/dropin/tests/library/newer.sh"
newer_program "$ours" IBVERBS_1.15 null ibv_alloc_dmah ibv_reg_mr_ex || rc=1
newer_program "$ours" IBVERBS_1.15 errno ibv_dealloc_dmah || rc=1
newer_program "$ours" IBVERBS_1.16 errno ibv_query_port_speed || rc=1
newer_program "$ours" IBVERBS_1.17 null ibv_alloc_buf ibv_reg_buf_mr || rc=1
newer_program "$ours" IBVERBS_1.17 none ibv_free_buf || rc=1
newer_program "$ours" IBVERBS_1.18 null ibv_create_comp_cntr || rc=1
newer_program "$ours" IBVERBS_1.18 errno ibv_destroy_comp_cntr ibv_set_comp_cntr ibv_inc_comp_cntr \
	ibv_read_comp_cntr ibv_set_err_comp_cntr ibv_inc_err_comp_cntr ibv_read_err_comp_cntr \
	ibv_qp_attach_comp_cntr ibv_query_comp_cntr_caps || rc=1
newer_program "$ours" IBVERBS_PRIVATE_65 errno ibv_cmd_create_comp_cntr ibv_cmd_destroy_comp_cntr \
	ibv_cmd_set_comp_cntr ibv_cmd_inc_comp_cntr ibv_cmd_read_comp_cntr ibv_cmd_set_err_comp_cntr \
	ibv_cmd_inc_err_comp_cntr ibv_cmd_read_err_comp_cntr ibv_cmd_qp_attach_comp_cntr || rc=1
newer_program "$ours" IBVERBS_PRIVATE_65 minus ibv_cmd_export_dmabuf_fd || rc=1
newer_program "$ours" IBVERBS_PRIVATE_65 null ibv_dmabuf_heap_alloc ibv_dmabuf_heap_cc_shared_init || rc=1
newer_program "$ours" IBVERBS_PRIVATE_65 none ibv_dmabuf_heap_destroy ibv_dmabuf_heap_free || rc=1
for lib in libmlx5.so.1 libefa.so.1 librdmacm.so.1; do
	path=$(path_of $lib)
	[ -n "$path" ] || { echo "$lib is not installed"; continue; }
	loaded=$(LD_LIBRARY_PATH=$build/verbs LD_BIND_NOW=1 LD_PRELOAD=$path \
		bash -c 'cat /proc/$$/maps') || { echo "$lib does not load"; rc=1; continue; }
	grep -q "$build/verbs/libibverbs.so.1" <<<"$loaded" || { echo "$lib got another libibverbs"; rc=1; }
	grep -q libdoppel-rt <<<"$loaded" && { echo "the drop-in loads a runtime; it has one inside"; rc=1; }
	true
done
[ $rc = 0 ] && echo "$(names "$ours" | wc -l) names, in their nodes"
exit $rc
