/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs that the program builds: nodes, edges, parameters, copies, user objects. */
#include "graph_cases.h"

static cudaGraph_t new_graph(void)
{
	cudaGraph_t g = NULL;

	OK(cudaGraphCreate(&g, 0));
	return g;
}

static size_t edge_count(cudaGraph_t g)
{
	size_t n = 99;

	OK(cudaGraphGetEdges(g, NULL, NULL, NULL, &n));
	return n;
}

/* ---- graphs and edges ----------------------------------------------------------------------- */

static void arguments_of_graphs_are_checked(void)
{
	cudaGraph_t g = NULL;
	cudaGraphExec_t x = NULL;

	IS(cudaErrorInvalidValue, cudaGraphCreate(&g, 1));
	IS(cudaErrorInvalidValue, cudaGraphCreate(NULL, 0));
	IS(cudaErrorInvalidValue, cudaGraphDestroy(NULL));
	IS(cudaErrorInvalidValue, cudaGraphExecDestroy(NULL));
	IS(cudaErrorInvalidValue, cudaGraphLaunch(NULL, now.a));
	IS(cudaErrorInvalidValue, cudaGraphInstantiate(&x, NULL, 0));
	g = new_graph();
	IS(cudaErrorInvalidValue, cudaGraphInstantiate(NULL, g, 0));
	OK(cudaGraphDestroy(g));
}

static void flags_of_executable_graphs_are_checked(void)
{
	cudaGraph_t g = new_graph();
	cudaGraphExec_t x = NULL;
	unsigned long long flags = 9;

	IS(cudaErrorInvalidValue, cudaGraphInstantiate(&x, g, 64));
	IS(cudaErrorInvalidValue, cudaGraphInstantiate(&x, g, cudaGraphInstantiateFlagUpload));
	OK(cudaGraphInstantiate(&x, g, 0));
	OK(cudaGraphExecGetFlags(x, &flags));
	IS(0, flags);
	OK(cudaGraphExecDestroy(x));
	OK(cudaGraphInstantiateWithFlags(&x, g, cudaGraphInstantiateFlagAutoFreeOnLaunch));
	OK(cudaGraphExecGetFlags(x, &flags));
	IS(cudaGraphInstantiateFlagAutoFreeOnLaunch, flags);
	OK(cudaGraphExecDestroy(x));
	OK(cudaGraphDestroy(g));
}

static void an_empty_graph_can_be_launched(void)
{
	cudaGraph_t g = new_graph();
	cudaGraphExec_t x = exec_of(g);

	OK(cudaGraphUpload(x, now.a));
	launch_and_wait(x, now.a);
	launch_and_wait(x, NULL);
	OK(cudaGraphExecDestroy(x));
	OK(cudaGraphDestroy(g));
}

static void dependencies_of_new_nodes_are_checked(void)
{
	cudaGraph_t g = new_graph(), other = new_graph();
	cudaGraphNode_t n = add_host(g, NULL, add_one, 0), twice[2], out = NULL;

	twice[0] = twice[1] = n;
	IS(cudaErrorInvalidValue, cudaGraphAddEmptyNode(&out, other, &n, 1));
	IS(cudaErrorInvalidValue, cudaGraphAddEmptyNode(&out, g, twice, 2));
	IS(cudaErrorInvalidValue, cudaGraphAddEmptyNode(&out, g, NULL, 1));
	IS(cudaErrorInvalidValue, cudaGraphAddEmptyNode(&out, NULL, NULL, 0));
	IS(1, node_count(g));
	OK(cudaGraphAddEmptyNode(&out, g, &n, 1));
	IS(cudaGraphNodeTypeEmpty, node_type(g, 1));
	OK(cudaGraphDestroy(g));
	OK(cudaGraphDestroy(other));
}

static void edges_are_checked(void)
{
	cudaGraph_t g = new_graph();
	cudaGraphNode_t a = add_host(g, NULL, add_one, 0), b = add_host(g, a, add_one, 0);

	IS(cudaErrorInvalidValue, cudaGraphAddDependencies(g, &a, &b, NULL, 1));
	IS(cudaErrorInvalidValue, cudaGraphAddDependencies(g, &a, &a, NULL, 1));
	OK(cudaGraphRemoveDependencies(g, &a, &b, NULL, 1));
	IS(cudaErrorInvalidValue, cudaGraphRemoveDependencies(g, &a, &b, NULL, 1));
	IS(0, edge_count(g));
	OK(cudaGraphDestroy(g));
}

static void a_cycle_is_found_when_the_graph_is_instantiated(void)
{
	cudaGraph_t g = new_graph();
	cudaGraphNode_t a = add_host(g, NULL, add_one, 0), b = add_host(g, a, add_one, 0);
	cudaGraphExec_t x = NULL;

	OK(cudaGraphAddDependencies(g, &b, &a, NULL, 1));
	IS(cudaErrorInvalidValue, cudaGraphInstantiate(&x, g, 0));
	OK(cudaGraphRemoveDependencies(g, &b, &a, NULL, 1));
	OK(cudaGraphInstantiate(&x, g, 0));
	OK(cudaGraphExecDestroy(x));
	OK(cudaGraphDestroy(g));
}

static void nodes_and_edges_are_listed(void)
{
	cudaGraph_t g = new_graph();
	cudaGraphNode_t a = add_host(g, NULL, add_one, 0), b = add_host(g, a, add_one, 0);
	cudaGraphNode_t list[4], to[4];
	size_t n = 4;

	memset(list, 1, sizeof list);
	OK(cudaGraphGetNodes(g, list, &n));
	IS(2, n);
	IS(1, list[0] == a && list[1] == b && !list[3]);
	n = 1;
	OK(cudaGraphGetNodes(g, list, &n));
	IS(1, n);
	IS(cudaErrorInvalidValue, cudaGraphGetNodes(g, list, NULL));
	OK(cudaGraphGetRootNodes(g, NULL, &n));
	IS(1, n);
	n = 4;
	OK(cudaGraphGetEdges(g, list, to, NULL, &n));
	IS(1, n == 1 && list[0] == a && to[0] == b);
	IS(cudaErrorInvalidValue, cudaGraphGetEdges(g, list, NULL, NULL, &n));
	OK(cudaGraphNodeGetDependencies(b, NULL, NULL, &n));
	IS(1, n);
	OK(cudaGraphNodeGetDependentNodes(b, NULL, NULL, &n));
	IS(0, n);
	OK(cudaGraphDestroy(g));
}

static void a_destroyed_node_takes_its_edges_along(void)
{
	cudaGraph_t g = new_graph();
	cudaGraphNode_t a = add_host(g, NULL, add_one, 0), b = add_host(g, a, add_one, 0);

	(void)add_host(g, b, add_one, 0);
	IS(2, edge_count(g));
	OK(cudaGraphDestroyNode(b));
	IS(2, node_count(g));
	IS(0, edge_count(g));
	OK(cudaGraphDestroy(g));
}

static void a_clone_has_its_own_nodes(void)
{
	cudaGraph_t g = new_graph(), clone = NULL;
	cudaGraphNode_t a = add_host(g, NULL, add_one, 0), b = add_host(g, a, add_one, 0);
	cudaGraphNode_t found = NULL;
	enum cudaGraphNodeType type = cudaGraphNodeTypeEmpty;

	OK(cudaGraphClone(&clone, g));
	IS(2, node_count(clone));
	IS(1, edge_count(clone));
	OK(cudaGraphNodeFindInClone(&found, b, clone));
	IS(1, found && found != b);
	IS(cudaErrorInvalidValue, cudaGraphNodeFindInClone(&found, b, g));
	IS(cudaErrorInvalidValue, cudaGraphClone(NULL, g));
	IS(cudaErrorInvalidValue, cudaGraphClone(&clone, NULL));
	OK(cudaGraphNodeGetType(a, &type));
	IS(cudaGraphNodeTypeHost, type);
	IS(cudaErrorInvalidValue, cudaGraphNodeGetType(a, NULL));
	IS(cudaErrorInvalidValue, cudaGraphNodeGetType(NULL, &type));
	OK(cudaGraphDestroy(clone));
	OK(cudaGraphDestroy(g));
}

/* ---- parameters ----------------------------------------------------------------------------- */

static cudaError_t add_fill(cudaGraph_t g, void *dst, unsigned unit, size_t width, size_t height)
{
	struct cudaMemsetParams p;
	cudaGraphNode_t n;

	memset(&p, 0, sizeof p);
	p.dst = dst;
	p.value = 0x1234;
	p.elementSize = unit;
	p.width = width;
	p.height = height;
	p.pitch = height > 1 ? width * unit : 0;
	return cudaGraphAddMemsetNode(&n, g, NULL, 0, &p);
}

static void parameters_of_fills_are_checked(void)
{
	static unsigned char pageable[64];
	cudaGraph_t g = new_graph();
	cudaGraphNode_t nodes[8];
	struct cudaMemsetParams p;
	struct cudaHostNodeParams h;
	size_t n = 8;

	OK(add_fill(g, now.dev, 2, 4, 1));
	IS(cudaErrorInvalidValue, add_fill(g, now.dev, 3, 4, 1));
	OK(add_fill(g, now.dev, 1, 4, 1));
	IS(cudaErrorInvalidValue, add_fill(g, NULL, 1, 4, 1));
	OK(add_fill(g, now.pinned, 1, 4, 1));
	IS(cudaErrorInvalidValue, add_fill(g, now.dev, 1, 0, 1));
	IS(cudaErrorInvalidValue, add_fill(g, now.dev, 1, 4, 0));
	OK(add_fill(g, now.dev, 1, 4, 2));
	IS(cudaErrorInvalidValue, add_fill(g, pageable, 1, 4, 1));
	OK(cudaGraphGetNodes(g, nodes, &n));
	OK(cudaGraphMemsetNodeGetParams(nodes[0], &p));
	IS(1, p.value == 0x1234 && p.elementSize == 2 && p.width == 4 && p.height == 1);
	IS(cudaErrorInvalidValue, cudaGraphHostNodeGetParams(nodes[0], &h));
	OK(cudaGraphDestroy(g));
}

static cudaError_t add_copy(cudaGraph_t g, void *to, const void *from, size_t bytes, int kind)
{
	cudaGraphNode_t n;

	return cudaGraphAddMemcpyNode1D(&n, g, NULL, 0, to, from, bytes, (enum cudaMemcpyKind)kind);
}

static void parameters_of_copies_are_checked(void)
{
	static unsigned char pageable[64];
	cudaGraph_t g = new_graph();
	cudaGraphNode_t nodes[8], same;
	struct cudaMemcpy3DParms p;
	size_t n = 8;

	OK(add_copy(g, now.dev, now.pinned, 16, cudaMemcpyHostToDevice));
	OK(add_copy(g, now.dev, pageable, 16, cudaMemcpyHostToDevice));
	OK(add_copy(g, pageable, now.dev, 16, cudaMemcpyDefault));
	IS(cudaErrorInvalidValue, add_copy(g, now.dev, NULL, 16, cudaMemcpyDefault));
	IS(cudaErrorInvalidValue, add_copy(g, now.dev, now.pinned, 0, cudaMemcpyDefault));
	IS(cudaErrorInvalidMemcpyDirection, add_copy(g, now.dev, now.pinned, 16, 9));
	IS(cudaErrorInvalidValue, add_copy(g, pageable, now.pinned, 16, cudaMemcpyHostToDevice));
	OK(cudaGraphGetNodes(g, nodes, &n));
	IS(3, n);
	memset(&p, 0, sizeof p);
	OK(cudaGraphMemcpyNodeGetParams(nodes[0], &p));
	IS(1, p.extent.width == 16 && p.extent.height == 1 && p.extent.depth == 1);
	IS(1, p.srcPtr.ptr == now.pinned && p.dstPtr.ptr == now.dev);
	IS(cudaMemcpyHostToDevice, p.kind);
	OK(cudaGraphAddMemcpyNode(&same, g, NULL, 0, &p));
	OK(cudaGraphDestroy(g));
}

static void parameters_of_host_functions_are_checked(void)
{
	cudaGraph_t g = new_graph();
	cudaGraphNode_t n = add_host(g, NULL, add_one, 3), other;
	struct cudaHostNodeParams p;

	OK(cudaGraphHostNodeGetParams(n, &p));
	IS(1, p.fn == add_one && p.userData == (void *)3);
	p.fn = NULL;
	IS(cudaErrorInvalidValue, cudaGraphAddHostNode(&other, g, NULL, 0, &p));
	IS(cudaErrorInvalidValue, cudaGraphAddHostNode(&other, g, NULL, 0, NULL));
	OK(cudaGraphDestroy(g));
}

static void parameters_of_events_are_checked(void)
{
	cudaGraph_t g = new_graph();
	cudaGraphNode_t record, wait, other;
	cudaEvent_t e = NULL;

	OK(cudaGraphAddEventRecordNode(&record, g, NULL, 0, now.e));
	OK(cudaGraphAddEventWaitNode(&wait, g, &record, 1, now.e));
	IS(cudaErrorInvalidValue, cudaGraphAddEventWaitNode(&other, g, NULL, 0, NULL));
	OK(cudaGraphEventRecordNodeGetEvent(record, &e));
	IS(1, e == now.e);
	IS(cudaErrorInvalidValue, cudaGraphEventWaitNodeGetEvent(record, &e));
	OK(cudaGraphDestroy(g));
}

static void a_child_graph_is_copied(void)
{
	cudaGraph_t g = new_graph(), child = new_graph(), inner = NULL;
	cudaGraphNode_t n = NULL, other;

	(void)add_host(child, NULL, add_one, 3);
	OK(cudaGraphAddChildGraphNode(&n, g, NULL, 0, child));
	(void)add_host(child, NULL, add_one, 50);
	OK(cudaGraphChildGraphNodeGetGraph(n, &inner));
	IS(1, inner && inner != child);
	IS(1, node_count(inner));
	IS(cudaErrorInvalidValue, cudaGraphAddChildGraphNode(&other, g, NULL, 0, NULL));
	OK(cudaGraphDestroy(child));
	IS(1, node_count(g));
	OK(cudaGraphDestroy(g));
}

/* ---- user objects --------------------------------------------------------------------------- */

static void arguments_of_user_objects_are_checked(void)
{
	const unsigned sync = cudaUserObjectNoDestructorSync;
	cudaUserObject_t o = NULL;
	cudaGraph_t g = new_graph();

	IS(cudaErrorInvalidValue, cudaUserObjectCreate(&o, NULL, add_one, 0, sync));
	IS(cudaErrorInvalidValue, cudaUserObjectCreate(&o, NULL, add_one, 1, 0));
	IS(cudaErrorInvalidValue, cudaUserObjectCreate(&o, NULL, NULL, 1, sync));
	IS(cudaErrorInvalidValue, cudaUserObjectCreate(NULL, NULL, add_one, 1, sync));
	OK(cudaUserObjectCreate(&o, NULL, add_one, 1, sync));
	IS(cudaErrorInvalidValue, cudaGraphRetainUserObject(g, o, 0, 0));
	IS(cudaErrorInvalidValue, cudaGraphRetainUserObject(g, o, 1, 2));
	IS(cudaErrorInvalidValue, cudaGraphRetainUserObject(NULL, o, 1, 0));
	IS(cudaErrorInvalidValue, cudaUserObjectRelease(o, 0));
	OK(cudaUserObjectRelease(o, 1));
	IS(1, added_at_last(1));
	OK(cudaGraphDestroy(g));
}

static void the_last_graph_that_keeps_an_object_ends_it(void)
{
	cudaUserObject_t o = NULL;
	cudaGraph_t g = new_graph(), clone = NULL;
	cudaGraphExec_t x;

	OK(cudaUserObjectCreate(&o, NULL, add_one, 2, cudaUserObjectNoDestructorSync));
	OK(cudaGraphRetainUserObject(g, o, 1, cudaGraphUserObjectMove));
	OK(cudaUserObjectRetain(o, 1));
	OK(cudaUserObjectRelease(o, 2));
	x = exec_of(g);
	OK(cudaGraphClone(&clone, g));
	OK(cudaGraphDestroy(g));
	OK(cudaGraphDestroy(clone));
	usleep(2000);
	IS(0, added());
	OK(cudaGraphExecDestroy(x));
	IS(1, added_at_last(1));
}

static void a_graph_can_release_an_object(void)
{
	cudaUserObject_t o = NULL;
	cudaGraph_t g = new_graph();

	OK(cudaUserObjectCreate(&o, NULL, add_one, 1, cudaUserObjectNoDestructorSync));
	OK(cudaGraphRetainUserObject(g, o, 2, 0));
	OK(cudaUserObjectRelease(o, 1));
	OK(cudaGraphReleaseUserObject(g, o, 1));
	usleep(2000);
	IS(0, added());
	OK(cudaGraphReleaseUserObject(g, o, 1));
	IS(1, added_at_last(1));
	OK(cudaGraphDestroy(g));
}

static const struct graph_case cases[] = {
	CASE(arguments_of_graphs_are_checked),
	CASE(flags_of_executable_graphs_are_checked),
	CASE(an_empty_graph_can_be_launched),
	CASE(dependencies_of_new_nodes_are_checked),
	CASE(edges_are_checked),
	CASE(a_cycle_is_found_when_the_graph_is_instantiated),
	CASE(nodes_and_edges_are_listed),
	CASE(a_destroyed_node_takes_its_edges_along),
	CASE(a_clone_has_its_own_nodes),
	CASE(parameters_of_fills_are_checked),
	CASE(parameters_of_copies_are_checked),
	CASE(parameters_of_host_functions_are_checked),
	CASE(parameters_of_events_are_checked),
	CASE(a_child_graph_is_copied),
	CASE(arguments_of_user_objects_are_checked),
	CASE(the_last_graph_that_keeps_an_object_ends_it),
	CASE(a_graph_can_release_an_object),
};

int main(int argc, char **argv)
{
	return cases_main(cases, (int)(sizeof cases / sizeof cases[0]), argc, argv);
}
