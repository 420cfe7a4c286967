// SPDX-License-Identifier: GPL-2.0
/*
 * A TCG plugin of QEMU that counts what the guest executes. It is for one CPU with -icount.
 *
 * Each of these reads of the clock adds a line `mark <ns> <instructions> <locked> <modules> <group>...`
 * to the output, with totals since the start. <modules> are the instructions of modules:
 *
 * - a return from ktime_get() into a module;
 * - MARK, an instruction without effect, with the time in the register r10 (bench/load.c).
 *
 * With `profile=on`, lines `at <address> <instructions>` come before: executions since the last mark.
 *
 * Options: out=FILE; clock=BEGIN-END, the addresses of ktime_get(); modules=BEGIN, the lowest address of
 * a module; group=ADDRESS+ADDRESS+..., counts how often one of the instructions is executed (more than
 * once: more groups); profile=on.
 *
 * A repeated string instruction counts as one instruction. With -icount, QEMU executes it once for each
 * repetition.
 */

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Debian has no package with qemu-plugin.h. These declarations are those of version 4 of the API. */
#define EXPORT __attribute__((visibility("default")))

typedef uint64_t qemu_plugin_id_t;
typedef struct qemu_info_t qemu_info_t;
typedef struct { void *score; size_t offset; } qemu_plugin_u64;
typedef struct { uint8_t *data; unsigned int len; } GByteArray;
typedef struct { char *data; unsigned int len; } GArray;
typedef struct { void *handle; const char *name; const char *feature; } qemu_plugin_reg_descriptor;

enum qemu_plugin_cb_flags { NO_REGS, READ_REGS };
enum qemu_plugin_op { ADD_U64 };

struct qemu_plugin_tb;
struct qemu_plugin_insn;

void qemu_plugin_register_vcpu_init_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, unsigned int));
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t,
					   void (*)(qemu_plugin_id_t, struct qemu_plugin_tb *));
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t, void (*)(qemu_plugin_id_t, void *), void *);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, void (*)(unsigned int, void *),
					    enum qemu_plugin_cb_flags, void *);
void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct qemu_plugin_insn *, enum qemu_plugin_op,
							 qemu_plugin_u64, uint64_t);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
size_t qemu_plugin_insn_data(const struct qemu_plugin_insn *, void *, size_t);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
void *qemu_plugin_scoreboard_new(size_t);
uint64_t qemu_plugin_u64_get(qemu_plugin_u64, unsigned int);
GArray *qemu_plugin_get_registers(void);
int qemu_plugin_read_register(void *, GByteArray *);
bool qemu_plugin_read_memory_vaddr(uint64_t, GByteArray *, size_t);
void qemu_plugin_outs(const char *);
GByteArray *g_byte_array_new(void);
GByteArray *g_byte_array_set_size(GByteArray *, unsigned int);

EXPORT int qemu_plugin_version = 4;

#define MAX_GROUPS	8
#define MAX_ADDRESSES	32
/* A power of 2, several times the instructions of a kernel that are ever executed. */
#define RECORDS_SHIFT	21
#define MAX_RECORDS	(1u << RECORDS_SHIFT)

/* An instruction of the guest. */
struct record {
	uint64_t address;
	uint64_t executed;
	struct record *next_executed;
};

static struct {
	FILE *out;
	uint64_t clock_begin, clock_end, modules;
	bool profile;
	unsigned int groups;
	unsigned int addresses[MAX_GROUPS];
	uint64_t group[MAX_GROUPS][MAX_ADDRESSES];
} options;

static qemu_plugin_u64 instructions, locked, in_modules, in_group[MAX_GROUPS];
static void *rax, *r10, *rsp;

/* Repetitions of string instructions after the first. */
static uint64_t repeated;
static struct record *repeating;
static uint64_t instructions_then;

static struct record *records[MAX_RECORDS];
static struct record *executed;

static struct record *record_of(uint64_t address)
{
	static unsigned int used;
	uint64_t i = address * 0x9e3779b97f4a7c15ull >> (64 - RECORDS_SHIFT);

	for (; records[i]; i = (i + 1) % MAX_RECORDS)
		if (records[i]->address == address)
			return records[i];
	records[i] = calloc(1, sizeof(struct record));
	if (!records[i] || ++used == MAX_RECORDS)
		abort();
	records[i]->address = address;
	return records[i];
}

static void count(struct record *record)
{
	if (!record->executed++) {
		record->next_executed = executed;
		executed = record;
	}
}

static void on_instruction(unsigned int cpu, void *record)
{
	count(record);
}

/* Called after the instruction has been counted in `instructions`. */
static void on_string_instruction(unsigned int cpu, void *data)
{
	uint64_t now = qemu_plugin_u64_get(instructions, cpu);

	if (repeating == data && now == instructions_then + 1)
		repeated++;
	else if (options.profile)
		count(data);
	repeating = data;
	instructions_then = now;
}

static uint64_t u64_of(const GByteArray *bytes)
{
	uint64_t value = 0;

	memcpy(&value, bytes->data, bytes->len < sizeof(value) ? bytes->len : sizeof(value));
	return value;
}

static uint64_t value_of(void *reg)
{
	static GByteArray *bytes;

	if (!bytes)
		bytes = g_byte_array_new();
	g_byte_array_set_size(bytes, 0);
	qemu_plugin_read_register(reg, bytes);
	return u64_of(bytes);
}

static void mark(unsigned int cpu, uint64_t ns)
{
	while (executed) {
		struct record *record = executed;

		fprintf(options.out, "at %" PRIx64 " %" PRIu64 "\n", record->address, record->executed);
		record->executed = 0;
		executed = record->next_executed;
	}
	fprintf(options.out, "mark %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64, ns,
		qemu_plugin_u64_get(instructions, cpu) - repeated, qemu_plugin_u64_get(locked, cpu),
		qemu_plugin_u64_get(in_modules, cpu));
	for (unsigned int i = 0; i < options.groups; i++)
		fprintf(options.out, " %" PRIu64, qemu_plugin_u64_get(in_group[i], cpu));
	fputc('\n', options.out);
}

static void on_mark(unsigned int cpu, void *unused)
{
	mark(cpu, value_of(r10));
}

/* A return from ktime_get(), with the time in rax. */
static void on_clock(unsigned int cpu, void *unused)
{
	static GByteArray *caller;

	if (!caller)
		caller = g_byte_array_new();
	if (qemu_plugin_read_memory_vaddr(value_of(rsp), caller, sizeof(uint64_t)) &&
	    u64_of(caller) >= options.modules)
		mark(cpu, value_of(rax));
}

/* The properties of an instruction that its bytes show. */
struct kind {
	bool is_mark, is_return, is_locked, is_string;
};

static struct kind kind_of(const uint8_t *bytes, size_t size)
{
	static const uint8_t mark_bytes[] = { 0x66, 0x87, 0xdb };	/* xchg %bx, %bx */
	struct kind kind = { .is_mark = size == 3 && !memcmp(bytes, mark_bytes, 3) };
	bool repeats = false;
	size_t i = 0;

	for (; i < size; i++) {
		if (bytes[i] == 0xf0)
			kind.is_locked = true;
		else if (bytes[i] == 0xf2 || bytes[i] == 0xf3)
			repeats = true;
		else if (!(bytes[i] == 0x66 || bytes[i] == 0x67 || bytes[i] == 0x2e || bytes[i] == 0x3e ||
			   bytes[i] == 0x64 || bytes[i] == 0x65 || (bytes[i] & 0xf0) == 0x40))
			break;
	}
	if (i == size)
		return kind;
	kind.is_return = bytes[i] == 0xc3;
	/* movs, cmps, stos, lods, scas */
	kind.is_string = repeats && bytes[i] >= 0xa4 && bytes[i] <= 0xaf && (bytes[i] & 0xfe) != 0xa8;
	/* An exchange with memory is locked without the prefix. */
	if ((bytes[i] & 0xfe) == 0x86 && i + 1 < size && bytes[i + 1] < 0xc0)
		kind.is_locked = true;
	return kind;
}

static void translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	for (size_t n = 0; n < qemu_plugin_tb_n_insns(tb); n++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, n);
		uint64_t address = qemu_plugin_insn_vaddr(insn);
		uint8_t bytes[16];
		struct kind kind = kind_of(bytes, qemu_plugin_insn_data(insn, bytes, sizeof(bytes)));

		qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, ADD_U64, instructions, 1);
		if (kind.is_locked)
			qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, ADD_U64, locked, 1);
		if (address >= options.modules)
			qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, ADD_U64, in_modules, 1);
		for (unsigned int i = 0; i < options.groups; i++)
			for (unsigned int j = 0; j < options.addresses[i]; j++)
				if (options.group[i][j] == address)
					qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
						insn, ADD_U64, in_group[i], 1);
		if (kind.is_string)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_string_instruction, NO_REGS,
							       record_of(address));
		else if (options.profile)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_instruction, NO_REGS,
							       record_of(address));
		if (kind.is_mark)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_mark, READ_REGS, NULL);
		if (kind.is_return && address >= options.clock_begin && address < options.clock_end)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_clock, READ_REGS, NULL);
	}
}

static void find_registers(qemu_plugin_id_t id, unsigned int cpu)
{
	GArray *all = qemu_plugin_get_registers();
	qemu_plugin_reg_descriptor *found = (qemu_plugin_reg_descriptor *)all->data;

	for (unsigned int i = 0; i < all->len; i++) {
		if (!strcmp(found[i].name, "rax"))
			rax = found[i].handle;
		else if (!strcmp(found[i].name, "r10"))
			r10 = found[i].handle;
		else if (!strcmp(found[i].name, "rsp"))
			rsp = found[i].handle;
	}
}

static void finish(qemu_plugin_id_t id, void *unused)
{
	fclose(options.out);
}

static bool add_group(char *addresses)
{
	unsigned int i = options.groups++;

	if (i == MAX_GROUPS)
		return false;
	for (char *at = strtok(addresses, "+"); at; at = strtok(NULL, "+")) {
		if (options.addresses[i] == MAX_ADDRESSES)
			return false;
		options.group[i][options.addresses[i]++] = strtoull(at, NULL, 16);
	}
	return true;
}

static bool parse(char *option)
{
	if (!strncmp(option, "out=", 4))
		return (options.out = fopen(option + 4, "w"));
	if (!strncmp(option, "clock=", 6))
		return sscanf(option + 6, "%" SCNx64 "-%" SCNx64, &options.clock_begin,
			      &options.clock_end) == 2;
	if (!strncmp(option, "modules=", 8))
		return sscanf(option + 8, "%" SCNx64, &options.modules) == 1;
	if (!strncmp(option, "group=", 6))
		return add_group(option + 6);
	if (!strcmp(option, "profile=on"))
		return (options.profile = true);
	return false;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc, char **argv)
{
	uint64_t *totals = qemu_plugin_scoreboard_new((3 + MAX_GROUPS) * sizeof(uint64_t));
	size_t offset = 0;

	for (int i = 0; i < argc; i++) {
		if (!parse(argv[i])) {
			qemu_plugin_outs("costs: bad option or file: ");
			qemu_plugin_outs(argv[i]);
			qemu_plugin_outs("\n");
			return -1;
		}
	}
	instructions = (qemu_plugin_u64){ totals, offset };
	locked = (qemu_plugin_u64){ totals, offset += sizeof(uint64_t) };
	in_modules = (qemu_plugin_u64){ totals, offset += sizeof(uint64_t) };
	for (unsigned int i = 0; i < MAX_GROUPS; i++)
		in_group[i] = (qemu_plugin_u64){ totals, offset += sizeof(uint64_t) };
	qemu_plugin_register_vcpu_init_cb(id, find_registers);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
	qemu_plugin_register_atexit_cb(id, finish, NULL);
	return 0;
}
