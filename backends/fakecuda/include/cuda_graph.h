/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver's types and calls of CUDA graphs. A part of cuda.h, which includes it; the Toolkit has
 * no such file. Values and layouts are the Toolkit's. Implemented by backends/fakecuda/graph. */
#ifndef FAKECUDA_CUDA_GRAPH_H
#define FAKECUDA_CUDA_GRAPH_H

#include <stdint.h>

typedef uint64_t cuuint64_t;

typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUuserObject_st *CUuserObject;
typedef struct CUkern_st *CUkernel;
typedef struct CUarray_st *CUarray;
typedef void (*CUhostFn)(void *userData);

typedef enum CUgraphNodeType_enum {
	CU_GRAPH_NODE_TYPE_KERNEL = 0,
	CU_GRAPH_NODE_TYPE_MEMCPY = 1,
	CU_GRAPH_NODE_TYPE_MEMSET = 2,
	CU_GRAPH_NODE_TYPE_HOST = 3,
	CU_GRAPH_NODE_TYPE_GRAPH = 4,
	CU_GRAPH_NODE_TYPE_EMPTY = 5,
	CU_GRAPH_NODE_TYPE_WAIT_EVENT = 6,
	CU_GRAPH_NODE_TYPE_EVENT_RECORD = 7,
} CUgraphNodeType;

typedef enum CUstreamCaptureStatus_enum {
	CU_STREAM_CAPTURE_STATUS_NONE = 0,
	CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
	CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
} CUstreamCaptureStatus;

typedef enum CUstreamCaptureMode_enum {
	CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
	CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
	CU_STREAM_CAPTURE_MODE_RELAXED = 2,
} CUstreamCaptureMode;

typedef enum CUgraphExecUpdateResult_enum {
	CU_GRAPH_EXEC_UPDATE_SUCCESS = 0x0,
	CU_GRAPH_EXEC_UPDATE_ERROR = 0x1,
	CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED = 0x2,
	CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED = 0x3,
	CU_GRAPH_EXEC_UPDATE_ERROR_FUNCTION_CHANGED = 0x4,
	CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED = 0x5,
	CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED = 0x6,
} CUgraphExecUpdateResult;

typedef struct CUgraphExecUpdateResultInfo_st {
	CUgraphExecUpdateResult result;
	CUgraphNode errorNode;
	CUgraphNode errorFromNode;
} CUgraphExecUpdateResultInfo;

typedef struct CUgraphEdgeData_st {
	unsigned char from_port;
	unsigned char to_port;
	unsigned char type;
	unsigned char reserved[5];
} CUgraphEdgeData;

/* ---- parameters of nodes -------------------------------------------------------------------- */

typedef struct CUDA_KERNEL_NODE_PARAMS_v2_st {
	CUfunction func;
	unsigned int gridDimX;
	unsigned int gridDimY;
	unsigned int gridDimZ;
	unsigned int blockDimX;
	unsigned int blockDimY;
	unsigned int blockDimZ;
	unsigned int sharedMemBytes;
	void **kernelParams;
	void **extra;
	CUkernel kern;
	CUcontext ctx;
} CUDA_KERNEL_NODE_PARAMS;

typedef struct CUDA_MEMSET_NODE_PARAMS_st {
	CUdeviceptr dst;
	size_t pitch;
	unsigned int value;
	unsigned int elementSize;
	size_t width;
	size_t height;
} CUDA_MEMSET_NODE_PARAMS;

typedef struct CUDA_HOST_NODE_PARAMS_st {
	CUhostFn fn;
	void *userData;
} CUDA_HOST_NODE_PARAMS;

typedef struct CUDA_MEMCPY3D_st {
	size_t srcXInBytes;
	size_t srcY;
	size_t srcZ;
	size_t srcLOD;
	CUmemorytype srcMemoryType;
	const void *srcHost;
	CUdeviceptr srcDevice;
	CUarray srcArray;
	void *reserved0;
	size_t srcPitch;
	size_t srcHeight;
	size_t dstXInBytes;
	size_t dstY;
	size_t dstZ;
	size_t dstLOD;
	CUmemorytype dstMemoryType;
	void *dstHost;
	CUdeviceptr dstDevice;
	CUarray dstArray;
	void *reserved1;
	size_t dstPitch;
	size_t dstHeight;
	size_t WidthInBytes;
	size_t Height;
	size_t Depth;
} CUDA_MEMCPY3D;

#define cuGraphGetEdges                   cuGraphGetEdges_v2
#define cuGraphAddDependencies            cuGraphAddDependencies_v2
#define cuGraphAddKernelNode              cuGraphAddKernelNode_v2
#define cuGraphInstantiate                cuGraphInstantiateWithFlags
#define cuGraphExecUpdate                 cuGraphExecUpdate_v2
#define cuStreamBeginCapture              cuStreamBeginCapture_v2
#define cuStreamGetCaptureInfo            cuStreamGetCaptureInfo_v3
#define cuStreamUpdateCaptureDependencies cuStreamUpdateCaptureDependencies_v2

/* ---- graphs, nodes and edges ----------------------------------------------------------- */

FAKECUDA_API CUresult cuGraphCreate(CUgraph *phGraph, unsigned int flags);
FAKECUDA_API CUresult cuGraphDestroy(CUgraph hGraph);
FAKECUDA_API CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph);
FAKECUDA_API CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes);
FAKECUDA_API CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
				      CUgraphEdgeData *edgeData, size_t *numEdges);
FAKECUDA_API CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type);
FAKECUDA_API CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from,
					     const CUgraphNode *to, const CUgraphEdgeData *edgeData,
					     size_t numDependencies);

/* ---- nodes by their work --------------------------------------------------------------- */

FAKECUDA_API CUresult cuGraphAddKernelNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					   const CUgraphNode *dependencies, size_t numDependencies,
					   const CUDA_KERNEL_NODE_PARAMS *nodeParams);
FAKECUDA_API CUresult cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					   const CUgraphNode *dependencies, size_t numDependencies,
					   const CUDA_MEMCPY3D *copyParams, CUcontext ctx);
FAKECUDA_API CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					   const CUgraphNode *dependencies, size_t numDependencies,
					   const CUDA_MEMSET_NODE_PARAMS *memsetParams,
					   CUcontext ctx);
FAKECUDA_API CUresult cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					 const CUgraphNode *dependencies, size_t numDependencies,
					 const CUDA_HOST_NODE_PARAMS *nodeParams);
FAKECUDA_API CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					  const CUgraphNode *dependencies, size_t numDependencies);
FAKECUDA_API CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					       const CUgraphNode *dependencies,
					       size_t numDependencies, CUgraph childGraph);
FAKECUDA_API CUresult cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph,
						const CUgraphNode *dependencies,
						size_t numDependencies, CUevent event);
FAKECUDA_API CUresult cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph,
					      const CUgraphNode *dependencies,
					      size_t numDependencies, CUevent event);

/* ---- executable graphs ----------------------------------------------------------------- */

FAKECUDA_API CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
						  unsigned long long flags);
FAKECUDA_API CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream);
FAKECUDA_API CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream);
FAKECUDA_API CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph,
					CUgraphExecUpdateResultInfo *resultInfo);
FAKECUDA_API CUresult cuGraphExecDestroy(CUgraphExec hGraphExec);

/* ---- capture --------------------------------------------------------------------------- */

FAKECUDA_API CUresult cuStreamBeginCapture(CUstream hStream, CUstreamCaptureMode mode);
FAKECUDA_API CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph);
FAKECUDA_API CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus);
FAKECUDA_API CUresult cuStreamGetCaptureInfo(CUstream hStream,
					     CUstreamCaptureStatus *captureStatus_out,
					     cuuint64_t *id_out, CUgraph *graph_out,
					     const CUgraphNode **dependencies_out,
					     const CUgraphEdgeData **edgeData_out,
					     size_t *numDependencies_out);
FAKECUDA_API CUresult cuStreamUpdateCaptureDependencies(CUstream hStream, CUgraphNode *dependencies,
							const CUgraphEdgeData *dependencyData,
							size_t numDependencies, unsigned int flags);
FAKECUDA_API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode);

/* ---- user objects ---------------------------------------------------------------------- */

FAKECUDA_API CUresult cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
					 unsigned int initialRefcount, unsigned int flags);
FAKECUDA_API CUresult cuUserObjectRetain(CUuserObject object, unsigned int count);
FAKECUDA_API CUresult cuUserObjectRelease(CUuserObject object, unsigned int count);
FAKECUDA_API CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object,
					      unsigned int count, unsigned int flags);
FAKECUDA_API CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object,
					       unsigned int count);

#endif
