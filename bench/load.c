// SPDX-License-Identifier: GPL-2.0
/*
 * Creates device-mapper devices and loads them, in guests without dmsetup and fio.
 *
 * load create NAME SECTORS TARGET PARAMETERS   create a device and print its path
 * load suspend NAME                            suspend the device, which waits for its requests
 * load remove NAME                             remove the device
 * load io DEVICE read|write BYTES JOBS DEPTH COUNT ROUNDS [FILE]
 *	In each round, each of JOBS threads makes COUNT direct requests of BYTES, DEPTH of them at the
 *	same time: one after the other by pread() and pwrite(), more by io_submit(). Prints for each
 *	round its duration in nanoseconds and the number of all requests. One round before the first
 *	is a warm-up and not printed. With FILE, writes 1 to it before the first round and 0 after the
 *	last one; JOBS must be 1 then.
 * load hold DEVICE SECTOR COUNT SINGLE
 *	Submits COUNT direct writes of 128 KiB and SINGLE of 4 KiB at once, at SECTOR, and waits.
 */

#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/dm-ioctl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A request to device-mapper, with one line of a table. */
struct request {
	struct dm_ioctl head;
	struct dm_target_spec spec;
	char parameters[512];
};

static void ask(int control, unsigned long what, struct request *request, const char *name)
{
	request->head.version[0] = DM_VERSION_MAJOR;
	request->head.data_size = sizeof(*request);
	request->head.data_start = sizeof(request->head);
	snprintf(request->head.name, sizeof(request->head.name), "%s", name);
	if (ioctl(control, what, request))
		err(1, "%s: device-mapper refuses %#lx", name, what);
}

static int open_control(void)
{
	int control = open("/dev/mapper/control", O_RDWR);

	if (control < 0)
		err(1, "/dev/mapper/control");
	return control;
}

static void create(char **args)
{
	struct request request = {};
	int control = open_control();
	unsigned long long dev;

	ask(control, DM_DEV_CREATE, &request, args[0]);
	dev = request.head.dev;

	request = (struct request){ .head.target_count = 1 };
	request.spec.length = strtoull(args[1], NULL, 0);
	snprintf(request.spec.target_type, sizeof(request.spec.target_type), "%s", args[2]);
	if (snprintf(request.parameters, sizeof(request.parameters), "%s", args[3]) >=
	    (int)sizeof(request.parameters))
		errx(1, "%s: too long a line", args[0]);
	ask(control, DM_TABLE_LOAD, &request, args[0]);

	/* Without the suspend flag the ioctl resumes the device. */
	request = (struct request){};
	ask(control, DM_DEV_SUSPEND, &request, args[0]);
	printf("/dev/dm-%llu\n", (dev & 0xff) | (dev >> 12 & 0xfff00));
}

static void suspend(char **args)
{
	struct request request = { .head.flags = DM_SUSPEND_FLAG };

	ask(open_control(), DM_DEV_SUSPEND, &request, args[0]);
}

static void remove_device(char **args)
{
	struct request request = {};

	ask(open_control(), DM_DEV_REMOVE, &request, args[0]);
}

static struct {
	int fd;
	bool write;
	size_t bytes;
	unsigned long jobs, depth, count, rounds;
	pthread_barrier_t barrier;
} load;

#define MAX_DEPTH 64

static void queue_requests(aio_context_t context, char *buffer, off_t at, unsigned long count)
{
	struct iocb requests[MAX_DEPTH], *list[MAX_DEPTH];

	for (unsigned long i = 0; i < count; i++, at += load.bytes) {
		requests[i] = (struct iocb){
			.aio_lio_opcode = load.write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD,
			.aio_fildes = load.fd,
			.aio_buf = (unsigned long)buffer,
			.aio_nbytes = load.bytes,
			.aio_offset = at,
		};
		list[i] = &requests[i];
	}
	if (syscall(SYS_io_submit, context, count, list) != (long)count)
		err(1, "io_submit of %lu requests", count);
}

/* Makes as many new requests as have ended. */
static void make_queued_requests(char *buffer, off_t at)
{
	static __thread aio_context_t context;
	struct io_event events[MAX_DEPTH];
	unsigned long left = load.count;
	long ended = left < load.depth ? left : load.depth;

	if (!context && syscall(SYS_io_setup, load.depth, &context))
		err(1, "io_setup");
	for (unsigned long flying = 0; left || flying; flying -= ended) {
		unsigned long count = left < (unsigned long)ended ? left : (unsigned long)ended;

		if (count)
			queue_requests(context, buffer, at, count);
		at += load.bytes * count;
		left -= count;
		flying += count;
		ended = syscall(SYS_io_getevents, context, 1, MAX_DEPTH, events, NULL);
		if (ended < 1)
			err(1, "io_getevents");
		for (long i = 0; i < ended; i++)
			if (events[i].res != (long long)load.bytes)
				errx(1, "a request failed: %lld", (long long)events[i].res);
	}
}

static void make_requests(char *buffer, unsigned long job)
{
	off_t at = load.bytes * load.count * job;

	if (load.depth > 1) {
		make_queued_requests(buffer, at);
		return;
	}
	for (unsigned long i = 0; i < load.count; i++, at += load.bytes) {
		ssize_t done = load.write ? pwrite(load.fd, buffer, load.bytes, at) :
					    pread(load.fd, buffer, load.bytes, at);

		if (done != (ssize_t)load.bytes)
			err(1, "request at %lld", (long long)at);
	}
}

static void *new_buffer(void)
{
	void *buffer;

	if (posix_memalign(&buffer, 4096, load.bytes))
		errx(1, "no memory");
	memset(buffer, 0x5a, load.bytes);
	return buffer;
}

static void *job_fn(void *job)
{
	void *buffer = new_buffer();

	for (unsigned long i = 0; i <= load.rounds; i++) {
		pthread_barrier_wait(&load.barrier);
		make_requests(buffer, (unsigned long)job);
		pthread_barrier_wait(&load.barrier);
	}
	free(buffer);
	return NULL;
}

/*
 * Returns the time, and passes it to bench/costs.c, which then records its counts. The instruction has
 * no effect.
 */
static long long mark_ns(void)
{
	register long long ns asm("r10");
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	ns = now.tv_sec * 1000000000LL + now.tv_nsec;
	asm volatile("xchg %%bx, %%bx" : : "r" (ns));
	return ns;
}

/* Writes a character to FILE, if there is one. */
static void switch_to(const char *file, const char *what)
{
	int fd = file ? open(file, O_WRONLY) : -1;

	if (file && (fd < 0 || write(fd, what, 1) != 1))
		err(1, "%s", file);
	if (file)
		close(fd);
}

static void io_alone(const char *file)
{
	void *buffer = new_buffer();

	make_requests(buffer, 0);
	/*
	 * Two ticks: the kernel finishes deferred work, and its coarse clock passes the last time stamp.
	 * Until then, each request compares the two clocks (ktime_get_coarse_real_ts64_mg()).
	 */
	usleep(20000);
	switch_to(file, "1");
	for (unsigned long i = 0; i < load.rounds; i++) {
		long long begin = mark_ns();

		make_requests(buffer, 0);
		printf("%lld %lu\n", mark_ns() - begin, load.count);
	}
	switch_to(file, "0");
	free(buffer);
}

static void hold(char **args)
{
	const unsigned long sector = strtoul(args[1], NULL, 0);
	const unsigned long large = strtoul(args[2], NULL, 0);
	const unsigned long count = large + strtoul(args[3], NULL, 0);
	int fd = open(args[0], O_RDWR | O_DIRECT);
	aio_context_t context = 0;
	struct io_event event;

	load.bytes = 131072;
	if (fd < 0 || syscall(SYS_io_setup, count, &context))
		err(1, "%s", args[0]);
	for (unsigned long i = 0; i < count; i++) {
		struct iocb request = {
			.aio_lio_opcode = IOCB_CMD_PWRITE,
			.aio_fildes = fd,
			.aio_buf = (unsigned long)new_buffer(),
			.aio_nbytes = i < large ? load.bytes : 4096,
			.aio_offset = sector * 512 + i * load.bytes,
		}, *list = &request;

		if (syscall(SYS_io_submit, context, 1, &list) != 1)
			err(1, "write %lu", i);
	}
	for (unsigned long i = 0; i < count; i++)
		if (syscall(SYS_io_getevents, context, 1, 1, &event, NULL) != 1)
			err(1, "write %lu", i);
}

static void io(char **args, const char *file)
{
	pthread_t threads[64];

	load.fd = open(args[0], O_RDWR | O_DIRECT);
	if (load.fd < 0)
		err(1, "%s", args[0]);
	load.write = !strcmp(args[1], "write");
	load.bytes = strtoul(args[2], NULL, 0);
	load.jobs = strtoul(args[3], NULL, 0);
	load.depth = strtoul(args[4], NULL, 0);
	load.count = strtoul(args[5], NULL, 0);
	load.rounds = strtoul(args[6], NULL, 0);
	if (!load.jobs || load.jobs > 64)
		errx(1, "1 to 64 jobs");
	if (!load.depth || load.depth > MAX_DEPTH)
		errx(1, "1 to %d requests at the same time", MAX_DEPTH);
	pthread_barrier_init(&load.barrier, NULL, load.jobs + 1);

	if (load.jobs == 1) {
		io_alone(file);
		return;
	}
	for (unsigned long job = 0; job < load.jobs; job++)
		if (pthread_create(&threads[job], NULL, job_fn, (void *)job))
			errx(1, "no thread");
	for (unsigned long i = 0; i <= load.rounds; i++) {
		/* Read before the barrier: the other threads may make requests before this thread continues. */
		long long begin = mark_ns();

		pthread_barrier_wait(&load.barrier);
		pthread_barrier_wait(&load.barrier);
		if (i)
			printf("%lld %lu\n", mark_ns() - begin, load.jobs * load.count);
	}
	for (unsigned long job = 0; job < load.jobs; job++)
		pthread_join(threads[job], NULL);
}

int main(int argc, char **argv)
{
	if (argc == 6 && !strcmp(argv[1], "create"))
		create(argv + 2);
	else if (argc == 3 && !strcmp(argv[1], "remove"))
		remove_device(argv + 2);
	else if (argc == 3 && !strcmp(argv[1], "suspend"))
		suspend(argv + 2);
	else if ((argc == 9 || argc == 10) && !strcmp(argv[1], "io"))
		io(argv + 2, argv[9]);
	else if (argc == 6 && !strcmp(argv[1], "hold"))
		hold(argv + 2);
	else
		errx(2, "create NAME SECTORS TARGET PARAMETERS | suspend NAME | remove NAME | "
			"io DEVICE read|write BYTES JOBS DEPTH COUNT ROUNDS [FILE] | "
			"hold DEVICE SECTOR COUNT SINGLE");
	return 0;
}
