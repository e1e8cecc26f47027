/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver's calls about devices. A CUdevice is the runtime's ordinal. */
#include "backends/fakecuda/fakecuda.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "core/base/hash.h"

/* ---- device numbers ------------------------------------------------------------------------- */

/* Enters the call and checks the device. Sets *dev on success. */
static CUresult device_enter(const char *call, CUdevice ordinal, struct fc_proc **proc,
			     struct fc_device **dev)
{
	cudaError_t rc = fc_enter(call, proc);

	if (!rc && (ordinal < 0 || ordinal >= (*proc)->count)) {
		fc_report("%s: device %d, this process has %d", call, ordinal, (*proc)->count);
		rc = cudaErrorInvalidDevice;
	}
	if (!rc)
		*dev = (*proc)->device[ordinal];
	return (CUresult)rc;
}

CUresult cuDeviceGetCount(int *count)
{
	const struct fc_at at = FC_AT("cuDeviceGetCount");
	struct fc_proc *proc;
	cudaError_t rc = fc_enter(at.call, &proc);

	if (!rc && !count)
		rc = cudaErrorInvalidValue;
	if (!rc)
		*count = proc->count;
	return fc_driver_leave(rc);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	const struct fc_at at = FC_AT("cuDeviceGet");
	struct fc_proc *proc;
	struct fc_device *dev;
	CUresult rc = device_enter(at.call, ordinal, &proc, &dev);

	if (!rc && !device)
		rc = CUDA_ERROR_INVALID_VALUE;
	if (!rc)
		*device = ordinal;
	return fc_driver_leave(rc);
}

/* CUDA formats bus ids with upper-case hexadecimal digits; the XML has lower-case ones. */
CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice device)
{
	const struct fc_at at = FC_AT("cuDeviceGetPCIBusId");
	struct fc_proc *proc;
	struct fc_device *dev;
	CUresult rc = device_enter(at.call, device, &proc, &dev);

	if (!rc && (!pciBusId || len <= (int)strlen(dev->gpu->bus_id)))
		rc = CUDA_ERROR_INVALID_VALUE;
	if (rc)
		return fc_driver_leave(rc);
	int i = 0;
	for (; dev->gpu->bus_id[i]; i++)
		pciBusId[i] = (char)toupper((unsigned char)dev->gpu->bus_id[i]);
	pciBusId[i] = 0;
	return fc_driver_leave(cudaSuccess);
}

/* Parses "[domain:]bus:device[.function]", in hexadecimal. */
bool fc_device_pci_parse(const char *text, struct fc_pci *pci)
{
	*pci = (struct fc_pci){0};
	if (sscanf(text, "%x:%x:%x.%x", &pci->domain, &pci->bus, &pci->device, &pci->function) >= 3)
		return true;
	*pci = (struct fc_pci){0};
	return sscanf(text, "%x:%x.%x", &pci->bus, &pci->device, &pci->function) >= 2;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *pciBusId)
{
	const struct fc_at at = FC_AT("cuDeviceGetByPCIBusId");
	struct fc_proc *proc;
	struct fc_pci want, have;
	cudaError_t rc = fc_enter(at.call, &proc);

	if (!rc && (!device || !pciBusId || !fc_device_pci_parse(pciBusId, &want)))
		rc = cudaErrorInvalidValue;
	if (rc)
		return fc_driver_leave(rc);
	for (int32_t i = 0; i < proc->count; i++) {
		if (fc_device_pci_parse(proc->device[i]->gpu->bus_id, &have) &&
		    !memcmp(&have, &want, sizeof have)) {
			*device = i;
			return fc_driver_leave(cudaSuccess);
		}
	}
	fc_report("%s: no visible GPU at %s", at.call, pciBusId);
	return fc_driver_leave(cudaErrorInvalidDevice);
}

/* ---- properties ----------------------------------------------------------------------------- */

const char *fc_device_name(const struct fc_device *dev)
{
	switch (dev->gpu->sm / 10) {
	case 6:
		return "Tesla P100-SXM2-16GB";
	case 7:
		return "Tesla V100-SXM2-32GB";
	case 8:
		return dev->gpu->sm == 80 ? "NVIDIA A100-SXM4-80GB" : "NVIDIA A40";
	case 9:
		return "NVIDIA H100 80GB HBM3";
	default:
		return "NVIDIA B200";
	}
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
	const struct fc_at at = FC_AT("cuDeviceGetName");
	struct fc_proc *proc;
	struct fc_device *device;
	CUresult rc = device_enter(at.call, dev, &proc, &device);

	if (!rc && (!name || len <= 0))
		rc = CUDA_ERROR_INVALID_VALUE;
	if (!rc)
		snprintf(name, (size_t)len, "%s", fc_device_name(device));
	return fc_driver_leave(rc);
}

void fc_device_uuid(const struct fc_device *dev, CUuuid *uuid)
{
	uint64_t id = hash64_combine(hash64_str(dev->gpu->bus_id), dev->host);

	memcpy(uuid->bytes, &id, sizeof id);
	id = hash64_combine(id, dev->index);
	memcpy(uuid->bytes + sizeof id, &id, sizeof id);
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	const struct fc_at at = FC_AT("cuDeviceGetUuid");
	struct fc_proc *proc;
	struct fc_device *device;
	CUresult rc = device_enter(at.call, dev, &proc, &device);

	if (!rc && !uuid)
		rc = CUDA_ERROR_INVALID_VALUE;
	if (!rc)
		fc_device_uuid(device, uuid);
	return fc_driver_leave(rc);
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice dev)
{
	const struct fc_at at = FC_AT("cuDeviceTotalMem");
	struct fc_proc *proc;
	struct fc_device *device;
	CUresult rc = device_enter(at.call, dev, &proc, &device);

	if (!rc && !bytes)
		rc = CUDA_ERROR_INVALID_VALUE;
	if (!rc)
		*bytes = device->total_bytes;
	return fc_driver_leave(rc);
}

CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	const struct fc_at at = FC_AT("cuDeviceGetAttribute");
	struct fc_proc *proc;
	struct fc_device *device;
	CUresult rc = device_enter(at.call, dev, &proc, &device);

	if (!rc && (!pi || attrib <= 0 || attrib >= CU_DEVICE_ATTRIBUTE_MAX))
		rc = CUDA_ERROR_INVALID_VALUE;
	if (!rc)
		*pi = fc_device_attribute(device, attrib);
	return fc_driver_leave(rc);
}

/* ---- peers ---------------------------------------------------------------------------------- */

/* True for different GPUs of one host: each pair is connected by NVLink or PCIe. */
bool fc_device_peers(const struct fc_device *a, const struct fc_device *b)
{
	return a != b && a->host == b->host;
}

static CUresult device_pair(const char *call, CUdevice a, CUdevice b, struct fc_device **dev_a,
			    struct fc_device **dev_b)
{
	struct fc_proc *proc;
	CUresult rc = device_enter(call, a, &proc, dev_a);

	if (!rc && (b < 0 || b >= proc->count)) {
		fc_report("%s: peer device %d, this process has %d", call, b, proc->count);
		rc = CUDA_ERROR_INVALID_DEVICE;
	}
	if (!rc)
		*dev_b = proc->device[b];
	return rc;
}

CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
	const struct fc_at at = FC_AT("cuDeviceCanAccessPeer");
	struct fc_device *a, *b;
	CUresult rc = device_pair(at.call, dev, peerDev, &a, &b);

	if (!rc && !canAccessPeer)
		rc = CUDA_ERROR_INVALID_VALUE;
	if (!rc)
		*canAccessPeer = fc_device_peers(a, b);
	return fc_driver_leave(rc);
}

/* Returns false for an unknown attribute. */
static bool device_p2p(const struct fc_device *a, const struct fc_device *b,
		       CUdevice_P2PAttribute attrib, int *value)
{
	const bool nvlink = a->gpu->nvlinks && b->gpu->nvlinks;

	switch (attrib) {
	case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
		*value = nvlink ? 0 : 1; /* 0: the best */
		return true;
	case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
		*value = fc_device_peers(a, b);
		return true;
	case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
		*value = nvlink;
		return true;
	case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
		*value = 0;
		return true;
	default:
		return false;
	}
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
				 CUdevice dstDevice)
{
	const struct fc_at at = FC_AT("cuDeviceGetP2PAttribute");
	struct fc_device *a, *b;
	CUresult rc = device_pair(at.call, srcDevice, dstDevice, &a, &b);

	if (!rc && (!value || a == b || !device_p2p(a, b, attrib, value)))
		rc = CUDA_ERROR_INVALID_VALUE;
	return fc_driver_leave(rc);
}
