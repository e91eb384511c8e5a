// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * The PC: register window, program fetch and parser, launches, interrupts.
 *
 * Launching.  Register writes go to one of two groups, the producer's.  A
 * launch uses it, and when it retires (with PINGPONG: at once) the producer
 * moves to the other group.  That needs S_POINTER of each unit to have been
 * written since: CNA's and CORE's once per job, as the driver does, DPU's for
 * each launch.  Where one is missing the launch does not advance, and repeats
 * the group that was launched last.
 *
 * Running.  A launched operation reads its registers while it runs.  With the
 * wait bit the parser stands still meanwhile.  Without it the parser runs
 * ahead, and what it writes to the same group before the next op-enable is what
 * the operation sees: the model executes it only then.  At the end of a program
 * the PC waits for what still runs.
 *
 * Completion.  After the last task the DPU bit of the group that retired last
 * is raised.  A DMA error ends the job at once, and shows whatever the mask, so
 * that a driver sees a status that it did not ask for.
 */
#include "npu_core.h"

#define TARGET_MARKER		0x0041
#define TARGET_OP_ENABLE	0x0081
#define TARGET_PC		0x0101

#define OP_MATMUL		0x0d	/* CNA, CORE, DPU */
#define OP_WAIT			0x02
#define OP_ENABLE_REG		0x0008

#define S_POINTER		0x004
#define UNIT_OP_ENABLE		0x008
#define S_POINTER_PINGPONG	0xe
#define TASK_CON_TASKS		0xfff
#define TASK_CON_PINGPONG	(1u << 12)

#define ENTRY_BYTES		8

/* The model's own: the silicon's value is not known. */
#define VERSION			0x4e505500

/* Targets of a program and their pages of the register window. */
static const struct {
	u16 target;
	u16 page;
	s8 unit;	/* -1: exists and is not modelled */
} pages[] = {
	{ 0x0201, 0x1000, NPU_UNIT_CNA },
	{ 0x0801, 0x3000, NPU_UNIT_CORE },
	{ 0x1001, 0x4000, NPU_UNIT_DPU },
	{ 0x2001, 0x5000, -1 },
	{ 0x4001, 0x6000, -1 },
	{ 0x8001, 0x7000, -1 },
};

#define PAGES	(sizeof(pages) / sizeof(pages[0]))

/* Registers that exist, by unit. */
static const struct {
	u16 first;
	u16 last;
} exists[] = {
	{ 0x1004, 0x1014 }, { 0x1020, 0x1038 }, { 0x1040, 0x105c }, { 0x1060, 0x1090 },
	{ 0x1100, 0x1110 }, { 0x1140, 0x1184 },
	{ 0x3004, 0x301c }, { 0x3030, 0x3030 },
	{ 0x4004, 0x4088 }, { 0x4090, 0x40ac }, { 0x40c0, 0x40c4 }, { 0x4100, 0x412c },
};

static int reg_exists(u32 addr)
{
	u32 i;

	for (i = 0; i < sizeof(exists) / sizeof(exists[0]); i++)
		if (addr >= exists[i].first && addr <= exists[i].last)
			return addr % 4 == 0;
	return 0;
}

u64 npu_core_size(void)
{
	return sizeof(struct npu_core);
}

void npu_init(struct npu_core *core, u32 id, const struct npu_ops *ops)
{
	memset(core, 0, sizeof(*core));
	core->id = id;
	core->ops = ops;
	npu_reset(core);
}

void npu_reset(struct npu_core *core)
{
	core->state = NPU_STATE_IDLE;
	core->running = 0;
	core->producer = 0;
	core->last = 1;
	memset(core->armed, 0, sizeof(core->armed));
	core->held_valid = 0;
	core->warm = 0;
	core->program = NULL;
	core->data_addr = 0;
	core->data_amount = 0;
	core->int_mask = 0;
	core->raw = 0;
	core->unmasked = 0;
	core->task_con = 0;
	core->task_base = 0;
	core->tasks_done = 0;
}

void npu_poison(struct npu_core *core, u32 pattern)
{
	u32 unit, i;

	for (i = 0; i < NPU_CBUF_BYTES; i += sizeof(pattern))
		memcpy(core->cbuf + i, &pattern, sizeof(pattern));
	for (unit = 0; unit < NPU_UNITS; unit++)
		for (i = 0; i < NPU_UNIT_REGS; i++) {
			core->regs[unit][0][i] = pattern;
			core->regs[unit][1][i] = pattern;
		}
}

struct npu_knobs *npu_knobs(struct npu_core *core)
{
	return &core->knobs;
}

const struct npu_counters *npu_counters(const struct npu_core *core)
{
	return &core->counters;
}

const struct npu_fault *npu_fault(const struct npu_core *core)
{
	return &core->fault;
}

const char *npu_fault_text(u32 code)
{
	static const char * const text[] = {
		[NPU_FAULT_NONE] = "none",
		[NPU_FAULT_DMA_READ] = "DMA read error",
		[NPU_FAULT_DMA_WRITE] = "DMA write error",
		[NPU_FAULT_BAD_ENTRY] = "bad program entry",
		[NPU_FAULT_UNKNOWN_REG] = "unknown register",
		[NPU_FAULT_UNSUPPORTED] = "not modelled",
		[NPU_FAULT_NO_OP] = "a program launched nothing",
		[NPU_FAULT_NO_NEXT] = "tasks remain and no next program is given",
		[NPU_FAULT_NO_SCRATCH] = "a knob needs scratch memory",
	};

	return code < sizeof(text) / sizeof(text[0]) ? text[code] : "unknown";
}

int npu_set_fault(struct npu_core *core, u32 code, u32 reg, u32 value)
{
	if (core->fault.code == NPU_FAULT_NONE) {
		core->fault.code = code;
		core->fault.block = core->block;
		core->fault.word = core->word;
		core->fault.reg = reg;
		core->fault.value = value;
	}
	return -1;
}

u8 *npu_dma(struct npu_core *core, enum npu_access access, u32 reg, u64 iova, u64 len)
{
	u8 *p = core->ops->map(core->ops->ctx, access, iova, len);

	if (p)
		core->counters.bytes[access] += len;
	else
		npu_set_fault(core, access == NPU_OUTPUT ? NPU_FAULT_DMA_WRITE :
			      NPU_FAULT_DMA_READ, reg, (u32)iova);
	return p;
}

/* ---- strided memory, in as few contiguous runs as it has ---- */

u32 npu_merge(const struct npu_dim *dim, u32 dims, s64 *off, u64 *len)
{
	u32 merged = 0, before, i;

	do {
		before = merged;
		for (i = 0; i < dims; i++) {
			s64 stride = dim[i].stride;
			u64 size = stride < 0 ? -stride : stride;

			if (merged & 1u << i || (dim[i].count > 1 && size > *len))
				continue;
			if (stride < 0)
				*off += stride * (dim[i].count - 1);
			*len += size * (dim[i].count - 1);
			merged |= 1u << i;
		}
	} while (merged != before);
	return merged;
}

u8 *npu_walk_next(struct npu_core *core, struct npu_walk *w)
{
	u32 inner, i;

	if (!w->started) {
		w->run_first = w->first;
		w->run_len = w->len;
		w->merged = npu_merge(w->dim, 2, &w->run_first, &w->run_len);
		/* What one run covers goes inside. */
		w->outer = w->merged == 1;
	}
	inner = !w->outer;
	if (w->started && ++w->at[inner] == w->dim[inner].count) {
		w->at[inner] = 0;
		if (++w->at[w->outer] == w->dim[w->outer].count)
			return NULL;
	}
	if (!w->started || !(w->merged & 1u << inner) ||
	    (!w->at[inner] && !(w->merged & 1u << w->outer))) {
		w->mapped = w->run_first;
		for (i = 0; i < 2; i++)
			if (!(w->merged & 1u << i))
				w->mapped += w->at[i] * w->dim[i].stride;
		w->p = npu_dma(core, w->access, w->reg, w->base + w->mapped, w->run_len);
		if (!w->p) {
			w->failed = 1;
			return NULL;
		}
	}
	w->started = 1;
	return w->p + (w->first + w->at[0] * w->dim[0].stride + w->at[1] * w->dim[1].stride -
		       w->mapped);
}

/* ---- interrupts ---- */

static u32 int_status(const struct npu_core *core)
{
	return core->raw & (core->int_mask | core->unmasked);
}

/* Returns NPU_EV_IRQ when that moves the line. */
static u32 raise(struct npu_core *core, u32 bits, u32 unmasked)
{
	u32 before = int_status(core);

	core->raw |= bits;
	core->unmasked |= unmasked;
	if (before || !int_status(core))
		return 0;
	core->counters.interrupts++;
	return NPU_EV_IRQ;
}

static u32 signal_done(struct npu_core *core)
{
	u32 wrong = core->knobs.wrong_status;

	core->signalled = 1;
	return raise(core, wrong ? wrong : core->done, wrong);
}

static void end_job(struct npu_core *core)
{
	core->state = NPU_STATE_IDLE;
	core->running = 0;
	core->program = NULL;
	/* The driver writes these for each job. */
	core->armed[NPU_UNIT_CNA] = 0;
	core->armed[NPU_UNIT_CORE] = 0;
}

/* What follows from the fault that has just been set. */
static u32 fail(struct npu_core *core)
{
	u32 bit = core->fault.code == NPU_FAULT_DMA_READ ? NPU_INT_DMA_READ_ERROR :
						     NPU_INT_DMA_WRITE_ERROR;

	if (core->fault.code != NPU_FAULT_DMA_READ && core->fault.code != NPU_FAULT_DMA_WRITE) {
		core->state = NPU_STATE_STUCK;
		return NPU_EV_STUCK;
	}
	end_job(core);
	return NPU_EV_IDLE | raise(core, bit, bit);
}

/* ---- the register window ---- */

static void start(struct npu_core *core)
{
	core->counters.starts++;
	if (core->state != NPU_STATE_IDLE)
		return;
	memset(&core->fault, 0, sizeof(core->fault));
	core->state = core->knobs.drop ? NPU_STATE_STUCK : NPU_STATE_RUNNING;
	core->running = 0;
	core->program = NULL;
	core->word = 0;
	core->block = 0;
	core->marker = 0;
	core->signalled = 0;
	core->done = 0;
	core->tasks_done = 0;
}

/* Registers that a program may write as well. Returns 0 when it is none of them. */
static int write_pc(struct npu_core *core, u32 offset, u32 value)
{
	switch (offset) {
	case NPU_PC_DATA_ADDR:
		core->data_addr = value;
		return 1;
	case NPU_PC_DATA_AMOUNT:
		core->data_amount = value & 0xffff;
		return 1;
	case NPU_PC_INT_MASK:
		core->int_mask = value;
		return 1;
	case NPU_PC_INT_CLEAR:
		core->raw &= ~value;
		core->unmasked &= ~value;
		return 1;
	case NPU_PC_TASK_CON:
		core->task_con = value;
		return 1;
	case NPU_PC_TASK_BASE_ADDR:
		core->task_base = value;
		return 1;
	default:
		return 0;
	}
}

static void write_unit(struct npu_core *core, u32 unit, u32 offset, u32 value)
{
	if (offset == S_POINTER)
		core->armed[unit] = (value & 0xffff) == S_POINTER_PINGPONG;
	else
		core->regs[unit][core->producer][offset / 4] = value;
}

static int unit_of(u32 offset)
{
	u32 i;

	for (i = 0; i < PAGES; i++)
		if (pages[i].page == (offset & 0xf000))
			return reg_exists(offset) ? pages[i].unit : -1;
	return -1;
}

void npu_write(struct npu_core *core, u32 offset, u32 value)
{
	int unit = unit_of(offset);

	if (unit >= 0)
		write_unit(core, unit, offset & 0xfff, value);
	else if (offset == NPU_PC_OP_ENABLE && value & 1)
		start(core);
	else
		write_pc(core, offset, value);
}

u32 npu_read(const struct npu_core *core, u32 offset)
{
	int unit = unit_of(offset);

	if (unit >= 0 && (offset & 0xfff) == S_POINTER)
		return (core->armed[unit] ? S_POINTER_PINGPONG : 0) | core->producer;
	if (unit >= 0)
		return core->regs[unit][core->producer][(offset & 0xfff) / 4];
	switch (offset) {
	case NPU_PC_VERSION:
		return VERSION;
	case NPU_PC_VERSION_NUM:
		return core->id;
	case NPU_PC_DATA_ADDR:
		return core->data_addr;
	case NPU_PC_DATA_AMOUNT:
		return core->data_amount;
	case NPU_PC_INT_MASK:
		return core->int_mask;
	case NPU_PC_INT_STATUS:
		return int_status(core);
	case NPU_PC_INT_RAW_STATUS:
		return core->raw;
	case NPU_PC_TASK_CON:
		return core->task_con;
	case NPU_PC_TASK_BASE_ADDR:
		return core->task_base;
	case NPU_PC_TASK_STATUS:
		return core->tasks_done;
	default:
		return 0;
	}
}

int npu_busy(const struct npu_core *core)
{
	return core->state != NPU_STATE_IDLE;
}

void npu_start(struct npu_core *core, const struct npu_job *job)
{
	u32 pointer = S_POINTER_PINGPONG + (core->id << 28);

	npu_write(core, NPU_PC_DATA_ADDR, 1);
	npu_write(core, 0x1000 + S_POINTER, pointer);
	npu_write(core, 0x3000 + S_POINTER, pointer);
	npu_write(core, NPU_PC_DATA_ADDR, job->regcmd);
	npu_write(core, NPU_PC_DATA_AMOUNT, job->amount);
	npu_write(core, NPU_PC_INT_MASK, job->int_mask);
	npu_write(core, NPU_PC_INT_CLEAR, job->int_mask);
	npu_write(core, NPU_PC_TASK_CON, (job->pingpong ? 7u : 6u) << 12 | job->tasks);
	npu_write(core, NPU_PC_TASK_BASE_ADDR, 0);
	npu_write(core, NPU_PC_OP_ENABLE, 1);
	npu_write(core, NPU_PC_OP_ENABLE, 0);
}

/* ---- launches ---- */

static int pingpong(const struct npu_core *core)
{
	return !!(core->task_con & TASK_CON_PINGPONG);
}

/* Does the interrupt come when this program has ended? */
static int last_program(const struct npu_core *core)
{
	return core->tasks_done + 1 >= (core->task_con & TASK_CON_TASKS);
}

/* Executes what runs. Returns events. */
static u32 retire(struct npu_core *core)
{
	u32 group = core->run_group;
	u32 events = NPU_EV_BLOCK;

	core->running = 0;
	if (core->knobs.stuck && core->block >= core->knobs.stuck_after) {
		core->state = NPU_STATE_STUCK;
		return NPU_EV_STUCK;
	}
	if (npu_execute(core, group))
		return fail(core);
	if (!pingpong(core))
		core->producer = !group;
	core->done = group ? NPU_INT_DPU_1 : NPU_INT_DPU_0;
	core->block++;
	core->counters.blocks++;
	if (core->knobs.early && !core->signalled && last_program(core))
		events |= signal_done(core);
	return events;
}

static u32 op_enable(struct npu_core *core, u32 value)
{
	u32 marked = core->marker;
	u32 events = 0;
	u32 group;

	core->marker = 0;
	if (core->knobs.needs41 && !marked) {
		core->counters.ignored++;
		return 0;
	}
	if ((value & ~OP_WAIT) != OP_MATMUL) {
		npu_set_fault(core, NPU_FAULT_UNSUPPORTED, OP_ENABLE_REG, value);
		return fail(core);
	}

	/* A launch names its group when it is given, not when it can begin. */
	if (core->armed[NPU_UNIT_CNA] && core->armed[NPU_UNIT_CORE] && core->armed[NPU_UNIT_DPU])
		core->last = core->producer;
	group = core->last;
	core->armed[NPU_UNIT_DPU] = 0;
	if (core->running)
		events = retire(core);
	if (core->state != NPU_STATE_RUNNING)
		return events;
	core->running = 1;
	core->run_group = group;
	core->wait = value & OP_WAIT && !core->knobs.nowait;
	core->launched++;
	if (pingpong(core))
		core->producer = !group;
	return events;
}

/* ---- programs ---- */

static int fetch(struct npu_core *core)
{
	u64 addr = (u64)core->task_base + (core->data_addr & ~15u);
	u32 words = 2 * (core->data_amount + 1);

	core->word = 0;
	core->launched = 0;
	core->program = npu_dma(core, NPU_FETCH, NPU_PC_DATA_ADDR, addr, (u64)words * ENTRY_BYTES);
	if (!core->program)
		return -1;
	core->words = words;
	core->counters.words += words;
	return 0;
}

static int unit_entry(struct npu_core *core, u32 target, u32 reg, u32 value)
{
	u32 offset = reg & 0xfff;
	u32 i;

	for (i = 0; i < PAGES && pages[i].target != target; i++)
		;
	if (i == PAGES || pages[i].page != (reg & 0xf000))
		return npu_set_fault(core, NPU_FAULT_BAD_ENTRY, reg, value);
	if (pages[i].unit < 0)
		return npu_set_fault(core, NPU_FAULT_UNSUPPORTED, reg, value);
	if (!reg_exists(reg))
		return npu_set_fault(core, NPU_FAULT_UNKNOWN_REG, reg, value);
	/* A unit's own op-enable, other pointer modes, clock gating. */
	if ((offset == S_POINTER && value != S_POINTER_PINGPONG) ||
	    ((offset == UNIT_OP_ENABLE || reg == 0x1090 || reg == 0x300c) && value))
		return npu_set_fault(core, NPU_FAULT_UNSUPPORTED, reg, value);
	write_unit(core, pages[i].unit, offset, value);
	return 0;
}

/* Executes an entry. Returns events. */
static u32 execute_entry(struct npu_core *core, u64 entry)
{
	u32 target = entry >> 48, value = (u32)(entry >> 16), reg = entry & 0xffff;
	int ret = 0;

	switch (target) {
	case 0:
		if (entry)
			ret = npu_set_fault(core, NPU_FAULT_BAD_ENTRY, reg, value);
		break;
	case TARGET_PC:
		if (reg & 0xf000)
			ret = npu_set_fault(core, NPU_FAULT_BAD_ENTRY, reg, value);
		else if (reg == NPU_PC_OP_ENABLE)
			ret = npu_set_fault(core, NPU_FAULT_UNSUPPORTED, reg, value);
		else if (!write_pc(core, reg, value))
			ret = npu_set_fault(core, NPU_FAULT_UNKNOWN_REG, reg, value);
		break;
	case TARGET_MARKER:
		if (reg || value)
			ret = npu_set_fault(core, NPU_FAULT_BAD_ENTRY, reg, value);
		core->marker = 1;
		break;
	case TARGET_OP_ENABLE:
		if (reg == OP_ENABLE_REG)
			return op_enable(core, value);
		ret = npu_set_fault(core, NPU_FAULT_BAD_ENTRY, reg, value);
		break;
	default:
		ret = unit_entry(core, target, reg, value);
	}
	return ret ? fail(core) : 0;
}

/* Returns events; none when another program follows. */
static u32 end_program(struct npu_core *core)
{
	core->program = NULL;
	/* Nothing will retire, so nothing completes. */
	if (!core->launched) {
		npu_set_fault(core, NPU_FAULT_NO_OP, 0, 0);
		return fail(core);
	}
	core->counters.programs++;
	core->tasks_done = (core->tasks_done + 1) & TASK_CON_TASKS;
	if (core->tasks_done < (core->task_con & TASK_CON_TASKS)) {
		/* The PC would wait for an amount for ever. */
		if (core->data_amount)
			return 0;
		npu_set_fault(core, NPU_FAULT_NO_NEXT, NPU_PC_DATA_AMOUNT, 0);
		return fail(core);
	}
	if (!core->knobs.late && npu_flush(core))
		return fail(core);
	end_job(core);
	return NPU_EV_IDLE | (core->signalled ? 0 : signal_done(core));
}

u32 npu_step(struct npu_core *core)
{
	u32 events = 0;
	u64 entry;

	if (core->state == NPU_STATE_STUCK)
		return NPU_EV_STUCK;
	if (core->state == NPU_STATE_IDLE)
		return NPU_EV_IDLE;
	while (!events) {
		if (!core->program) {
			if (fetch(core))
				events = fail(core);
		} else if (core->running && (core->wait || core->word == core->words)) {
			events = retire(core);
		} else if (core->word == core->words) {
			events = end_program(core);
		} else {
			memcpy(&entry, core->program + (u64)core->word * ENTRY_BYTES,
			       ENTRY_BYTES);
			events = execute_entry(core, entry);
			core->word++;
		}
	}
	return events;
}

u32 npu_run(struct npu_core *core)
{
	u32 events;

	do
		events = npu_step(core);
	while (!(events & (NPU_EV_IRQ | NPU_EV_IDLE | NPU_EV_STUCK)));
	return events;
}

void npu_settle(struct npu_core *core)
{
	if (npu_flush(core))
		raise(core, NPU_INT_DMA_WRITE_ERROR, NPU_INT_DMA_WRITE_ERROR);
}
