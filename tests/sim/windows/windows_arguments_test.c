/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments of the functions for windows, on one rank or on all, and calls that differ between
 * ranks. */
#include <check.h>
#include <cuda_runtime_api.h>

#include "core/include/nccl_device.h"
#include "tests/sim/comm/comm_rank.h"
#include "tests/suite.h"

#define BYTES 65536u

/* Every rank makes the wrong call, and gets its own error. */
static void wrong(ncclComm_t comm, void *buff, size_t size, int flags, const char *words)
{
	ncclWindow_t win = (ncclWindow_t)&win;

	EXPECT_NCCL(ncclInvalidArgument, ncclCommWindowRegister(comm, buff, size, &win, flags));
	EXPECT(!win);
	EXPECT_ERROR_SAYS(words);
}

static void wrong_registers(ncclComm_t comm, uint8_t *mem, void *plain)
{
	char host[16];

	wrong(comm, NULL, BYTES, 0, "expected a buffer of one byte or more");
	wrong(comm, mem, 0, 0, "expected a buffer of one byte or more");
	wrong(comm, host, sizeof host, 0, "ncclCommWindowRegister: buff");
	wrong(comm, mem, BYTES, 0x31, "winFlags is 0x31 with the unknown bits 0x30");
	wrong(comm, plain, BYTES, 0, "is not memory of ncclMemAlloc");
	wrong(comm, mem + 4096 - 16, 4096, 0, "is 4080 bytes after the start of its memory");
	EXPECT_NCCL(ncclInvalidArgument, ncclCommWindowRegister(comm, mem, BYTES, NULL, 0));
	EXPECT_ERROR_SAYS("win is NULL");
	EXPECT_NCCL(ncclInvalidArgument, ncclCommWindowRegister(NULL, mem, BYTES, NULL, 0));
	EXPECT_ERROR_SAYS("comm is NULL");
}

static void wrong_addresses(ncclWindow_t win)
{
	void *p = &p;

	EXPECT_NCCL(ncclInvalidArgument, ncclGetPeerDevicePointer(win, 0, 0, NULL));
	EXPECT_ERROR_SAYS("ncclGetPeerDevicePointer: outPtr is NULL");
	EXPECT_NCCL(ncclInvalidArgument, ncclGetPeerDevicePointer(win, BYTES, 0, &p));
	EXPECT_ERROR_SAYS("offset is 65536, expected less than the window's 65536 bytes");
	EXPECT(!p);
	EXPECT_NCCL(ncclInvalidArgument, ncclGetPeerDevicePointer(win, 0, 2, &p));
	EXPECT_ERROR_SAYS("peer is 2, expected 0 to 1");
	EXPECT_NCCL(ncclInvalidArgument, ncclGetPeerDevicePointer(win, 0, -1, &p));
	EXPECT_NCCL(ncclInvalidArgument, ncclGetLsaDevicePointer(win, 0, 2, &p));
	EXPECT_ERROR_SAYS("lsaRank is 2, expected 0 to 1");
	p = &p;
	EXPECT_NCCL(ncclInvalidArgument, ncclGetLsaDevicePointer(NULL, 0, 0, &p));
	EXPECT_ERROR_SAYS("is no window");
	EXPECT(!p);
	EXPECT_NCCL(ncclInvalidArgument, ncclGetLsaDevicePointer((ncclWindow_t)&p, 0, 0, &p));
}

static void wrong_windows(ncclComm_t comm, ncclComm_t other, ncclWindow_t win)
{
	void *p = &p;

	EXPECT_NCCL(ncclInvalidArgument, ncclWinGetUserPtr(comm, win, NULL));
	EXPECT_ERROR_SAYS("outUserPtr is NULL");
	EXPECT_NCCL(ncclInvalidArgument, ncclWinGetUserPtr(comm, NULL, &p));
	EXPECT(!p);
	EXPECT_NCCL(ncclInvalidArgument, ncclWinGetUserPtr(other, win, &p));
	EXPECT_ERROR_SAYS("ncclWinGetUserPtr: win");
	EXPECT_NCCL(ncclInvalidArgument, ncclCommWindowDeregister(other, win));
	EXPECT_ERROR_SAYS("a window of another communicator");
	EXPECT_NCCL(ncclSuccess, ncclCommWindowDeregister(comm, win));
	EXPECT_NCCL(ncclInvalidArgument, ncclCommWindowDeregister(comm, win));
	EXPECT_ERROR_SAYS("no window, or it was deregistered");
	EXPECT_NCCL(ncclInvalidArgument, ncclWinGetUserPtr(comm, win, &p));
	EXPECT_NCCL(ncclInvalidArgument, ncclGetPeerDevicePointer(win, 0, 0, &p));
	EXPECT_NCCL(ncclSuccess, ncclCommWindowDeregister(comm, NULL));
}

static void arguments_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = comm_open(rank, nranks, ranks_id()), other;
	ncclWindow_t win = NULL;
	void *mem = NULL, *plain = NULL;

	(void)arg;
	EXPECT_NCCL(ncclSuccess, ncclCommSplit(comm, 0, rank, &other, NULL));
	EXPECT_NCCL(ncclSuccess, ncclMemAlloc(&mem, BYTES));
	EXPECT(cudaMalloc(&plain, BYTES) == cudaSuccess);
	wrong_registers(comm, mem, plain);
	EXPECT_NCCL(ncclSuccess, ncclCommWindowRegister(comm, mem, BYTES, &win, 0xf));
	EXPECT(win);
	wrong_addresses(win);
	wrong_windows(comm, other, win);
	EXPECT(cudaFree(plain) == cudaSuccess);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(other));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	EXPECT_NCCL(ncclSuccess, ncclMemFree(mem));
}

START_TEST(arguments_are_checked)
{
	ranks_run(&(struct ranks_config){.hosts = 1, .per_host = 2, .seed = 5}, arguments_rank,
		  NULL);
}
END_TEST

/* ---- calls that differ ----------------------------------------------------------------------- */

static void differ_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	const size_t bytes = rank == 2 ? BYTES / 2 : rank == 4 ? 4096 : BYTES;
	ncclWindow_t win;
	void *mem, *plain = NULL;

	(void)arg;
	EXPECT_NCCL(ncclSuccess, ncclMemAlloc(&mem, BYTES));
	EXPECT(cudaMalloc(&plain, BYTES) == cudaSuccess);
	EXPECT_NCCL(ncclInvalidArgument, ncclCommWindowRegister(comm, mem, bytes, &win, 0));
	EXPECT(!win);
	EXPECT_ERROR_SAYS("65536 bytes on ranks 0-1, 3, 5; 32768 bytes on rank 2; 4096 bytes on "
			  "rank 4");
	EXPECT_NCCL(ncclInvalidArgument, ncclCommWindowRegister(comm, mem, BYTES, &win, rank == 3));
	EXPECT_ERROR_SAYS("winFlags is 0 on rank 0 and 0x1 on rank 3");
	EXPECT_NCCL(rank == 5 ? ncclInvalidArgument : ncclRemoteError,
		    ncclCommWindowRegister(comm, rank == 5 ? plain : mem, BYTES, &win, 0));
	EXPECT_ERROR_SAYS(rank == 5 ? "ncclMemAlloc" : "the call of rank 5 failed");
	EXPECT_NCCL(rank == 1 ? ncclInvalidArgument : ncclRemoteError,
		    ncclCommWindowRegister(comm, rank == 1 ? NULL : mem, BYTES, &win, 0));
	/* none of these is an error of the communicator */
	EXPECT_NCCL(ncclSuccess, ncclCommWindowRegister(comm, mem, BYTES, &win, 0));
	EXPECT_NCCL(ncclSuccess, ncclCommWindowDeregister(comm, win));
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	EXPECT_NCCL(ncclSuccess, ncclMemFree(mem));
	EXPECT(cudaFree(plain) == cudaSuccess);
}

START_TEST(calls_that_differ_are_named_on_all_ranks)
{
	ranks_run(&(struct ranks_config){.hosts = 2, .per_host = 3, .seed = 6}, differ_rank, NULL);
	ranks_run(&(struct ranks_config){.hosts = 1, .per_host = 6, .seed = 7}, differ_rank, NULL);
}
END_TEST

/* ---- a group that fails ---------------------------------------------------------------------- */

/* A wrong call ends the group, before any message: the communicator has failed, too, since other
 * ranks wait. */
static void group_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	ncclWindow_t first = NULL, second = NULL;
	void *mem;
	ncclResult_t rc;

	(void)arg;
	EXPECT_NCCL(ncclSuccess, ncclMemAlloc(&mem, BYTES));
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, ncclCommWindowRegister(comm, mem, BYTES, &first, 0));
	EXPECT_NCCL(rank ? ncclSuccess : ncclInvalidArgument,
		    ncclCommWindowRegister(comm, rank ? mem : NULL, BYTES, &second, 0));
	rc = ncclGroupEnd();
	EXPECT(rank ? rc == ncclRemoteError : rc == ncclInvalidArgument);
	EXPECT(!first && !second);
	EXPECT_NCCL(ncclSuccess, ncclCommAbort(comm));
	EXPECT_NCCL(ncclSuccess, ncclMemFree(mem));
}

/* Here every rank finds the error in the exchange: the group registers no window. */
static void undone_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	ncclWindow_t first = NULL, second = NULL;
	void *mem;

	(void)arg;
	EXPECT_NCCL(ncclSuccess, ncclMemAlloc(&mem, BYTES));
	EXPECT_NCCL(ncclSuccess, ncclGroupStart());
	EXPECT_NCCL(ncclSuccess, ncclCommWindowRegister(comm, mem, BYTES, &first, 0));
	EXPECT_NCCL(ncclSuccess, ncclCommWindowRegister(comm, mem, rank ? 4096 : 8192, &second, 0));
	EXPECT_NCCL(ncclInvalidArgument, ncclGroupEnd());
	EXPECT_ERROR_SAYS("8192 bytes on rank 0; 4096 bytes on rank 1");
	EXPECT(!first && !second);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	EXPECT_NCCL(ncclSuccess, ncclMemFree(mem));
}

START_TEST(group_with_a_wrong_call_registers_nothing)
{
	const struct ranks_config c = {.hosts = 1, .per_host = 2, .seed = 8};

	ranks_run(&c, group_rank, NULL);
	ranks_run(&c, undone_rank, NULL);
}
END_TEST

/* ---- communicators without windows ----------------------------------------------------------- */

static void without_rank(int32_t rank, int32_t nranks, void *arg)
{
	ncclComm_t comm = comm_open(rank, nranks, ranks_id());
	ncclCommProperties_t props = NCCL_COMM_PROPERTIES_INITIALIZER;
	ncclWindow_t win = (ncclWindow_t)&win;
	void *mem, *p = &p;

	(void)arg;
	EXPECT_NCCL(ncclSuccess, ncclMemAlloc(&mem, BYTES));
	EXPECT_NCCL(ncclSuccess, ncclCommWindowRegister(comm, mem, BYTES, &win, 1));
	EXPECT(!win);
	EXPECT_NCCL(ncclSuccess, ncclWinGetUserPtr(comm, win, &p));
	EXPECT(!p);
	EXPECT_NCCL(ncclSuccess, ncclCommWindowDeregister(comm, win));
	EXPECT_NCCL(ncclSuccess, ncclCommQueryProperties(comm, &props));
	EXPECT(props.nLsaTeams == nranks);
	EXPECT_NCCL(ncclSuccess, ncclCommDestroy(comm));
	EXPECT_NCCL(ncclSuccess, ncclMemFree(mem));
}

START_TEST(communicator_without_direct_access_has_no_windows)
{
	static const char *const p2p[] = {"NCCL_P2P_DISABLE=1", NULL};
	static const char *const off[] = {"NCCL_WIN_ENABLE=0", NULL};

	ranks_run(&(struct ranks_config){.hosts = 2, .per_host = 2, .env = p2p}, without_rank,
		  NULL);
	ranks_run(&(struct ranks_config){.hosts = 1, .per_host = 2, .per_proc = 2, .env = off},
		  without_rank, NULL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("windows_arguments");
	TCase *t = tcase_create("arguments");

	tcase_set_timeout(t, 0);
	tcase_add_test(t, arguments_are_checked);
	tcase_add_test(t, calls_that_differ_are_named_on_all_ranks);
	tcase_add_test(t, group_with_a_wrong_call_registers_nothing);
	tcase_add_test(t, communicator_without_direct_access_has_no_windows);
	suite_add_tcase(s, t);
	return suite_run(s);
}
