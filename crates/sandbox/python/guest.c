/* The shim that makes CPython a guest: a WASI reactor with one door to the host.
 *
 * It owns the door (`_host`), the guest's clock and its random stream. Clock and stream live here, in guest memory, so that
 * the host keeps nothing for a guest and a frozen guest carries both with it. Both change only when an answer of the host
 * is taken, before any Python code sees that answer.
 */
#define PY_SSIZE_T_CLEAN
#include "Python.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT(name) __attribute__((export_name(name)))
#define IMPORT(name) __attribute__((import_module("host"), import_name(name)))

/* Sends a request and waits. Returns the length of the answer's frame; `host_take` then copies the frame. This is the only
 * function in which a guest can be suspended. */
IMPORT("call") int32_t host_call(const char *request, int32_t length);
IMPORT("take") void host_take(char *frame);
/* One finished log line. */
IMPORT("log") void host_log(const char *line, int32_t length);
/* How the program ended: see `END_` in _boot.py. Called once, last. */
IMPORT("end") void host_end(int32_t kind, const char *body, int32_t length);

/* Where asyncify saves the C stack: {next free byte, end of the buffer}, then the buffer. The largest stack seen in tests
 * is 20 KiB; running over the end is a trap. */
#define UNWIND_BYTES (1 << 20)
static struct {
  uint32_t next, end;
  char bytes[UNWIND_BYTES];
} unwind __attribute__((aligned(16)));

EXPORT("guest_unwind_area") void *guest_unwind_area(void) {
  unwind.next = (uint32_t)(uintptr_t)unwind.bytes;
  unwind.end = unwind.next + UNWIND_BYTES;
  return &unwind;
}

EXPORT("guest_alloc") void *guest_alloc(int32_t length) { return malloc((size_t)length); }

/* ---- clock: the `now` of the last answer, in microseconds ---- */

/* While the image is made no answer was given: a fixed time. */
static int64_t now_micros = 1749600000000000;

int32_t __imported_wasi_snapshot_preview1_clock_time_get(int32_t clock, int64_t precision, int32_t out) {
  (void)clock;
  (void)precision;
  *(uint64_t *)(uintptr_t)out = (uint64_t)now_micros * 1000;
  return 0;
}

/* ---- random stream: ChaCha20 with the answer's 32 bytes as key, block counter from 0, nonce 0 ---- */

static struct {
  uint32_t key[8];
  uint64_t block;
  uint8_t bytes[64];
  uint32_t used; /* of bytes; 64 when the block is spent */
} stream = {.used = 64};

static uint32_t rotate(uint32_t value, int by) { return value << by | value >> (32 - by); }

static void quarter_round(uint32_t *s, int a, int b, int c, int d) {
  s[a] += s[b], s[d] = rotate(s[d] ^ s[a], 16);
  s[c] += s[d], s[b] = rotate(s[b] ^ s[c], 12);
  s[a] += s[b], s[d] = rotate(s[d] ^ s[a], 8);
  s[c] += s[d], s[b] = rotate(s[b] ^ s[c], 7);
}

static void next_block(void) {
  uint32_t start[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
  uint32_t state[16];
  memcpy(start + 4, stream.key, sizeof stream.key);
  start[12] = (uint32_t)stream.block;
  start[13] = (uint32_t)(stream.block >> 32);
  stream.block++;
  memcpy(state, start, sizeof state);
  for (int round = 0; round < 10; round++) {
    for (int i = 0; i < 4; i++) quarter_round(state, i, 4 + i, 8 + i, 12 + i);
    for (int i = 0; i < 4; i++) quarter_round(state, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
  }
  for (int i = 0; i < 16; i++) state[i] += start[i];
  memcpy(stream.bytes, state, sizeof state); /* wasm is little-endian, as the cipher's definition is */
  stream.used = 0;
}

static void draw(void *out, size_t length) {
  uint8_t *to = out;
  while (length > 0) {
    if (stream.used == sizeof stream.bytes) next_block();
    size_t part = sizeof stream.bytes - stream.used;
    if (part > length) part = length;
    memcpy(to, stream.bytes + stream.used, part);
    stream.used += (uint32_t)part;
    to += part;
    length -= part;
  }
}

static void reseed(const uint8_t *entropy) {
  memcpy(stream.key, entropy, sizeof stream.key);
  stream.block = 0;
  stream.used = sizeof stream.bytes;
}

int32_t __imported_wasi_snapshot_preview1_random_get(int32_t out, int32_t length) {
  draw((void *)(uintptr_t)out, (size_t)(uint32_t)length);
  return 0;
}

/* ---- frames: what the host gives with a start and with each answer ---- */

/* The number that the next call carries (C-60: the host issues it). */
static uint64_t next_call = 1;

/* now (i64), next call (u64), one byte that says whether 32 bytes of entropy count, the entropy; then the JSON. */
#define HEAD_BYTES (8 + 8 + 1 + 32)

static void apply_head(const uint8_t *frame) {
  memcpy(&now_micros, frame, 8);
  memcpy(&next_call, frame + 8, 8);
  if (frame[16]) reseed(frame + 17);
}

/* ---- the Python module `_host` ---- */

/* Sends `request`, waits, applies the head of the answer and returns its JSON as bytes. */
static PyObject *exchange(const char *request, Py_ssize_t length) {
  int32_t answer = host_call(request, (int32_t)length);
  if (answer < HEAD_BYTES) return PyErr_Format(PyExc_SystemError, "the host gave no answer");
  uint8_t *frame = malloc((size_t)answer);
  if (!frame) return PyErr_NoMemory();
  host_take((char *)frame);
  apply_head(frame);
  PyObject *body = PyBytes_FromStringAndSize((char *)frame + HEAD_BYTES, answer - HEAD_BYTES);
  free(frame);
  return body;
}

static PyObject *host_send(PyObject *self, PyObject *args) {
  const char *request;
  Py_ssize_t length;
  if (!PyArg_ParseTuple(args, "y#:send", &request, &length)) return NULL;
  return exchange(request, length);
}

#define OPENING_BYTES 32 /* enough for `{"n":18446744073709551615,` */

/* call(bodies, batch): each body is what stands after `{"n":1,` in a request. Numbers are put in here, between which no
 * Python code can run: a destructor or a trace function that calls a tool itself cannot take a number that is in use. */
static PyObject *host_call_tools(PyObject *self, PyObject *args) {
  PyObject *bodies;
  int batch;
  if (!PyArg_ParseTuple(args, "O!p:call", &PyTuple_Type, &bodies, &batch)) return NULL;
  Py_ssize_t count = PyTuple_GET_SIZE(bodies), room = 2;
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *body = PyTuple_GET_ITEM(bodies, i);
    if (!PyBytes_Check(body)) return PyErr_Format(PyExc_TypeError, "call: bodies are bytes");
    room += OPENING_BYTES + PyBytes_GET_SIZE(body);
  }
  if (room > INT32_MAX) return PyErr_NoMemory();
  char *request = malloc((size_t)room), *to = request;
  if (!request) return PyErr_NoMemory();
  if (batch) *to++ = '[';
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject *body = PyTuple_GET_ITEM(bodies, i);
    to += snprintf(to, OPENING_BYTES, "%s{\"n\":%llu,", i ? "," : "", (unsigned long long)(next_call + (uint64_t)i));
    memcpy(to, PyBytes_AS_STRING(body), (size_t)PyBytes_GET_SIZE(body));
    to += PyBytes_GET_SIZE(body);
  }
  if (batch) *to++ = ']';
  PyObject *answer = exchange(request, to - request);
  free(request);
  return answer;
}

static PyObject *host_next_call(PyObject *self, PyObject *unused) { return PyLong_FromUnsignedLongLong(next_call); }

static PyObject *host_now(PyObject *self, PyObject *unused) { return PyLong_FromLongLong(now_micros); }

/* A float in [0, 1) with 53 random bits, as random.random() has it. */
static PyObject *host_uniform(PyObject *self, PyObject *unused) {
  uint64_t bits;
  draw(&bits, sizeof bits);
  return PyFloat_FromDouble((double)(bits >> 11) * (1.0 / 9007199254740992.0));
}

static PyObject *host_draw_bits(PyObject *self, PyObject *arg) {
  long long bits = PyLong_AsLongLong(arg);
  if (bits == -1 && PyErr_Occurred()) return NULL;
  if (bits < 0) return PyErr_Format(PyExc_ValueError, "number of bits must be non-negative");
  if (bits == 0) return PyLong_FromLong(0);
  size_t length = (size_t)((bits + 7) / 8);
  uint8_t *bytes = PyMem_Malloc(length);
  if (!bytes) return PyErr_NoMemory();
  draw(bytes, length);
  if (bits % 8) bytes[length - 1] >>= 8 - bits % 8;
  PyObject *value = _PyLong_FromByteArray(bytes, length, 1, 0);
  PyMem_Free(bytes);
  return value;
}

static PyObject *host_log_line(PyObject *self, PyObject *args) {
  Py_buffer line;
  if (!PyArg_ParseTuple(args, "y*:log", &line)) return NULL;
  host_log(line.buf, (int32_t)line.len);
  PyBuffer_Release(&line);
  Py_RETURN_NONE;
}

static PyObject *host_end_program(PyObject *self, PyObject *args) {
  int kind;
  const char *body;
  Py_ssize_t length;
  if (!PyArg_ParseTuple(args, "iy#:end", &kind, &body, &length)) return NULL;
  host_end(kind, body, (int32_t)length);
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"send", host_send, METH_VARARGS, "send(request) -> answer: any bytes; the broker judges them"},
    {"call", host_call_tools, METH_VARARGS, "call(bodies, batch) -> answer: numbers are put in"},
    {"next_call", host_next_call, METH_NOARGS, "the number of the next call"},
    {"now", host_now, METH_NOARGS, "microseconds since the epoch, of the last answer"},
    {"uniform", host_uniform, METH_NOARGS, "a float in [0, 1) from the stream"},
    {"draw_bits", host_draw_bits, METH_O, "an int of n bits from the stream"},
    {"log", host_log_line, METH_VARARGS, "one log line"},
    {"end", host_end_program, METH_VARARGS, "end(kind, body)"},
    {0},
};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_host", "The door to the host.", -1, methods};
static PyObject *init_host(void) { return PyModule_Create(&module); }

/* ---- what the host calls ---- */

static PyObject *boot_run, *boot_check;

static int start_python(void) {
  PyPreConfig early;
  PyPreConfig_InitIsolatedConfig(&early);
  early.utf8_mode = 1;
  PyStatus status = Py_PreInitialize(&early);
  if (PyStatus_Exception(status)) return 1;

  PyConfig config;
  PyConfig_InitIsolatedConfig(&config);
  config.site_import = 0;
  config.write_bytecode = 0;
  config.install_signal_handlers = 0;
  config.use_hash_seed = 1; /* equal programs iterate sets in equal order (W-156) */
  config.hash_seed = 0;
  config.module_search_paths_set = 1;
  PyWideStringList_Append(&config.module_search_paths, L"/lib");
  PyConfig_SetString(&config, &config.home, L"/");
  PyConfig_SetString(&config, &config.program_name, L"python");
  status = Py_InitializeFromConfig(&config);
  if (PyStatus_Exception(status)) {
    fprintf(stderr, "python did not start: %s\n", status.err_msg ? status.err_msg : "no reason given");
    return 1;
  }
  return 0;
}

/* Makes the interpreter and imports what the image holds. Run once, when the image is made. */
EXPORT("guest_init") int32_t guest_init(void) {
  PyImport_AppendInittab("_host", init_host);
  if (start_python()) return 1;
  PyObject *boot = PyImport_ImportModule("_boot");
  if (!boot) {
    PyErr_Print();
    return 2;
  }
  boot_run = PyObject_GetAttrString(boot, "run");
  boot_check = PyObject_GetAttrString(boot, "check");
  return boot_run && boot_check ? 0 : 3;
}

/* A start has the frame of an answer. A guest that is thawed enters here again with the same arguments; the head is then
 * applied by asyncify's rules: not at all, since `exchange` is where it goes on. */
static int32_t enter(PyObject *function, uint8_t *frame, int32_t length) {
  apply_head(frame);
  PyObject *outcome = PyObject_CallFunction(function, "y#", frame + HEAD_BYTES, (Py_ssize_t)(length - HEAD_BYTES));
  if (!outcome) {
    PyErr_Print();
    return 1;
  }
  Py_DECREF(outcome);
  return 0;
}

EXPORT("guest_run") int32_t guest_run(uint8_t *frame, int32_t length) { return enter(boot_run, frame, length); }
EXPORT("guest_check") int32_t guest_check(uint8_t *frame, int32_t length) { return enter(boot_check, frame, length); }
