/* What ordinary sends cost most, bytes to bytes: the compiled twin of Python that stays complete without it.
 *
 *   sends       frames of one read -> records, notes for the dispatcher, answers   (processor/send/send_message.py)
 *   batch       the body of one batch -> records, units, what is indexed, ids      (the same, store/message_store.py)
 *   hash_keys   properties -> hashes of their keys                                 (store/index/key_index.py)
 *   index_keys  hashes -> entries and slots of an index file                       (store/index/index_file.py)
 *
 * It keeps nothing between calls and decides nothing: for what is unusual a function returns None, having changed
 * nothing, and the Python does it. tests/brokerd/compiled compares both byte by byte. Every read of input is bounded
 * by the piece it was given; every write goes into room counted before. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <zlib.h>

#define SENDS_MAX 1024 /* of one call */
#define BATCH_MAX 65536
#define QUEUES_MAX 64
#define HEADER_MAX 65536
#define TOPIC_MAX 127 /* then its length has one byte */
#define PROPERTIES_MAX 32767
#define RECORD_HEADER 88
#define BATCH_ENTRY 22
#define UNIT 20
#define MAGIC_V1 0xDAA320A7u
#define ONEWAY 2
#define ORDINARY_FLAGS 0x703 /* of a message: compressed and how, several tags */

typedef struct {
    const uint8_t *at;
    Py_ssize_t size;
} Piece;

typedef struct {
    const uint8_t *at, *end;
} Reader;

static Piece piece_of(PyObject *bytes)
{
    return (Piece){(const uint8_t *)PyBytes_AS_STRING(bytes), PyBytes_GET_SIZE(bytes)};
}

static int is(Piece piece, const char *word)
{
    return piece.size == (Py_ssize_t)strlen(word) && memcmp(piece.at, word, piece.size) == 0;
}

static uint32_t read_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint8_t *put(uint8_t *p, uint64_t value, int bytes)
{
    for (int i = bytes - 1; i >= 0; i--, value >>= 8)
        p[i] = (uint8_t)value;
    return p + bytes;
}

static uint8_t *copy(uint8_t *p, Piece piece)
{
    memcpy(p, piece.at, piece.size);
    return p + piece.size;
}

static int append(PyObject *list, PyObject *item)
{
    int is_appended = item != NULL && PyList_Append(list, item) == 0;
    Py_XDECREF(item);
    return is_appended;
}

static int64_t attribute(PyObject *object, const char *name)
{
    PyObject *value = PyObject_GetAttrString(object, name);
    int64_t found = value == NULL ? -1 : PyLong_AsLongLong(value);
    Py_XDECREF(value);
    return found;
}

/* JSON as Java and Go clients write it: no spaces, ASCII, no escapes but those of the separators of properties. */

static int skip(Reader *r, char c)
{
    if (r->at >= r->end || *r->at != (uint8_t)c)
        return 0;
    r->at++;
    return 1;
}

static int text(Reader *r, Piece *found)
{
    if (!skip(r, '"'))
        return 0;
    found->at = r->at;
    while (r->at < r->end && *r->at >= 0x20 && *r->at < 0x7f && *r->at != '"' && *r->at != '\\')
        r->at++;
    found->size = r->at - found->at;
    return skip(r, '"');
}

/* The properties, decoded into `into`, which has room for the whole header. */
static int properties_text(Reader *r, uint8_t *into, Py_ssize_t *size)
{
    uint8_t *p = into;
    if (!skip(r, '"'))
        return 0;
    while (r->at < r->end && *r->at >= 0x20 && *r->at < 0x7f && *r->at != '"') {
        if (*r->at != '\\') {
            *p++ = *r->at++;
            continue;
        }
        if (r->end - r->at < 6 || memcmp(r->at, "\\u000", 5) != 0 || (r->at[5] != '1' && r->at[5] != '2'))
            return 0;
        *p++ = r->at[5] - '0';
        r->at += 6;
    }
    *size = p - into;
    return skip(r, '"');
}

/* Digits as clients print them: no sign but a minus, no zero in front, and none so long that it could overflow. */
static int number(const uint8_t *at, const uint8_t *end, int64_t max, int64_t *found)
{
    int is_negative = at < end && *at == '-';
    at += is_negative;
    if (at >= end || end - at > 18 || (*at == '0' && (end - at > 1 || is_negative)))
        return 0;
    int64_t value = 0;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return 0;
        value = value * 10 + (*at - '0');
    }
    *found = is_negative ? -value : value;
    return value <= max;
}

static int bare_number(Reader *r, int64_t *found)
{
    const uint8_t *start = r->at;
    while (r->at < r->end && (*r->at == '-' || (*r->at >= '0' && *r->at <= '9')))
        r->at++;
    return number(start, r->at, INT32_MAX, found);
}

typedef struct {
    Piece topic, properties, unique_key, body;
    int64_t queue_id, sys_flag, born_ms, flag, reconsume_times, rpc_flag, opaque;
    int32_t tags_code;
} Send;

static int read_fields(Reader *r, Send *s, uint8_t *scratch)
{
    unsigned seen = 0;
    if (!skip(r, '{'))
        return 0;
    do {
        Piece key, value;
        int64_t ignored;
        if (!text(r, &key) || key.size != 1 || *key.at < 'a' || *key.at > 'n' || !skip(r, ':'))
            return 0;
        unsigned bit = 1u << (*key.at - 'a');
        if (seen & bit)
            return 0;
        seen |= bit;
        if (*key.at == 'i') {
            s->properties.at = scratch;
            if (!properties_text(r, scratch, &s->properties.size))
                return 0;
            continue;
        }
        if (!text(r, &value))
            return 0;
        const uint8_t *end = value.at + value.size;
        int is_read = 1;
        switch (*key.at) {
        case 'b': s->topic = value; break;
        case 'd': is_read = number(value.at, end, INT32_MAX, &ignored); break;
        case 'e': is_read = number(value.at, end, INT32_MAX, &s->queue_id); break;
        case 'f': is_read = number(value.at, end, INT32_MAX, &s->sys_flag); break;
        case 'g': is_read = number(value.at, end, INT64_MAX, &s->born_ms); break;
        case 'h': is_read = number(value.at, end, INT32_MAX, &s->flag); break;
        case 'j': is_read = number(value.at, end, INT32_MAX, &s->reconsume_times); break;
        case 'l': is_read = number(value.at, end, INT32_MAX, &ignored); break;
        case 'm': is_read = is(value, "false"); break;
        }
        if (!is_read)
            return 0;
    } while (skip(r, ','));
    return (seen & 0x1ff) == 0x1ff && skip(r, '}'); /* a to i are there */
}

static int read_head(Reader *r, Send *s, uint8_t *scratch)
{
    static const char *NAMES[] = {"extFields", "flag", "language", "opaque", "remark", "serializeTypeCurrentRPC", "version"};
    static const char BEGINNING[] = "{\"code\":310";
    const Py_ssize_t beginning = sizeof BEGINNING - 1;
    unsigned seen = 0;
    if (r->end - r->at < beginning || memcmp(r->at, BEGINNING, beginning) != 0)
        return 0;
    r->at += beginning;
    while (skip(r, ',')) {
        Piece key, value;
        int64_t ignored;
        int which = 0, is_read = 0;
        if (!text(r, &key) || !skip(r, ':'))
            return 0;
        while (which < 7 && !is(key, NAMES[which]))
            which++;
        if (seen & 1u << which)
            return 0;
        seen |= 1u << which;
        switch (which) {
        case 0: is_read = read_fields(r, s, scratch); break;
        case 1: is_read = bare_number(r, &s->rpc_flag); break;
        case 2: is_read = text(r, &value); break;
        case 3: is_read = bare_number(r, &s->opaque); break;
        case 4: is_read = text(r, &value); break;
        case 5: is_read = text(r, &value); break;
        case 6: is_read = bare_number(r, &ignored); break;
        }
        if (!is_read)
            return 0;
    }
    return (seen & 9) == 9 && skip(r, '}') && r->at == r->end; /* fields and opaque are there */
}

static int java_hash(Piece piece, uint32_t *hash)
{
    for (Py_ssize_t i = 0; i < piece.size; i++) {
        if (piece.at[i] >= 0x80)
            return 0;
        *hash = 31 * *hash + piece.at[i];
    }
    return 1;
}

/* The value of a property in the encoded text: the last one that is not empty. `name` ends with its separator. */
static Piece property(Piece text, const char *name)
{
    const Py_ssize_t size = strlen(name);
    Piece found = {text.at, 0};
    for (const uint8_t *at = text.at, *end = at + text.size; at < end;) {
        const uint8_t *stop = memchr(at, 2, end - at);
        stop = stop ? stop : end;
        if (stop - at > size && memcmp(at, name, size) == 0)
            found = (Piece){at + size, stop - at - size};
        at = stop + 1;
    }
    return found;
}

/* Find key and tag. 0: a property takes the message off the ordinary way, or the key is none a client makes. */
static int read_properties(Send *s)
{
    static const char *SPECIAL[] = {
        "DELAY", "TRAN_MSG", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS", "POP_CK",
        "INNER_MULTI_DISPATCH"};
    for (const uint8_t *at = s->properties.at, *end = at + s->properties.size; at < end;) {
        const uint8_t *stop = memchr(at, 2, end - at);
        stop = stop ? stop : end;
        const uint8_t *middle = memchr(at, 1, stop - at);
        if (middle == NULL)
            return 0;
        Piece name = {at, middle - at}, value = {middle + 1, stop - middle - 1};
        uint32_t hash = 0;
        if (is(name, "UNIQ_KEY"))
            s->unique_key = value;
        else if (is(name, "TAGS") && java_hash(value, &hash))
            s->tags_code = (int32_t)hash;
        for (size_t i = 0; i < sizeof SPECIAL / sizeof *SPECIAL; i++)
            if (is(name, SPECIAL[i]))
                return 0;
        at = stop + 1;
    }
    for (Py_ssize_t i = 0; i < s->unique_key.size; i++)
        if (!Py_ISALNUM(s->unique_key.at[i]))
            return 0;
    return s->unique_key.size > 0;
}

/* Read the whole frame at `at`; return where it ends, NULL for one that is not ordinary or has not arrived. */
static const uint8_t *read_send(const uint8_t *at, const uint8_t *end, Send *s, uint8_t *scratch)
{
    if (end - at < 8)
        return NULL;
    uint32_t length = read_u32(at), header = read_u32(at + 4);
    if (length < 4 || length > end - at - 4 || header > length - 4 || header > HEADER_MAX)
        return NULL;
    *s = (Send){0};
    Reader r = {at + 8, at + 8 + header};
    s->body = (Piece){r.end, length - 4 - header};
    if (!read_head(&r, s, scratch) || !read_properties(s) || (s->rpc_flag != 0 && s->rpc_flag != ONEWAY))
        return NULL;
    if (s->queue_id < 0 || s->queue_id >= QUEUES_MAX || s->sys_flag & ~ORDINARY_FLAGS || s->topic.size > TOPIC_MAX)
        return NULL;
    return at + 4 + length;
}

/* What the records of a call have in common, and the one being written. */
typedef struct {
    Piece topic, added, born_host, store_host, body, properties;
    int64_t queue_id, queue_offset, offset, flag, sys_flag, born_ms, store_ms, reconsume_times;
} Record;

static int has_end(Piece properties)
{
    return properties.size == 0 || properties.at[properties.size - 1] == 2;
}

static Py_ssize_t stored_properties(const Record *c)
{
    return c->properties.size + !has_end(c->properties) + c->added.size;
}

static Py_ssize_t record_size(const Record *c)
{
    return RECORD_HEADER + c->body.size + c->topic.size + 2 + stored_properties(c);
}

static uint8_t *put_record(uint8_t *p, const Record *c)
{
    p = put(p, record_size(c), 4);
    p = put(p, MAGIC_V1, 4);
    p = put(p, crc32(0, c->body.at, (uInt)c->body.size) & 0x7fffffff, 4);
    p = put(p, c->queue_id, 4);
    p = put(p, c->flag, 4);
    p = put(p, c->queue_offset, 8);
    p = put(p, c->offset, 8);
    p = put(p, c->sys_flag, 4);
    p = put(p, c->born_ms, 8);
    p = copy(p, c->born_host);
    p = put(p, c->store_ms, 8);
    p = copy(p, c->store_host);
    p = put(p, c->reconsume_times, 4);
    p = put(p, 0, 8);
    p = put(p, c->body.size, 4);
    p = copy(p, c->body);
    p = copy(p, c->topic);
    p = put(p, stored_properties(c), 2);
    p = copy(p, c->properties);
    if (!has_end(c->properties))
        *p++ = 2;
    return copy(p, c->added);
}

static uint8_t *put_unit(uint8_t *p, const Record *c, int32_t tags_code)
{
    return put(put(put(p, c->offset, 8), record_size(c), 4), (int64_t)tags_code, 8);
}

/* What is indexed of the record that ends at `end`. */
static PyObject *keyed_of(const Record *c, PyObject *queue, PyObject *stamp, const uint8_t *end)
{
    const Py_ssize_t stored = stored_properties(c);
    PyObject *keyed = PyTuple_New(4);
    if (keyed == NULL)
        return NULL;
    PyTuple_SET_ITEM(keyed, 0, Py_NewRef(queue));
    PyTuple_SET_ITEM(keyed, 1, PyLong_FromLongLong(c->offset));
    PyTuple_SET_ITEM(keyed, 2, Py_NewRef(stamp));
    PyTuple_SET_ITEM(keyed, 3, PyBytes_FromStringAndSize((const char *)end - stored, stored));
    if (PyTuple_GET_ITEM(keyed, 1) == NULL || PyTuple_GET_ITEM(keyed, 3) == NULL)
        Py_CLEAR(keyed);
    return keyed;
}

/* The dispatcher's note of the record that ends at `end`. */
static PyObject *note_of(const Record *c, PyObject *queue, int32_t tags_code, PyObject *stamp, const uint8_t *end)
{
    uint8_t unit[UNIT];
    put_unit(unit, c, tags_code);
    return Py_BuildValue("(OLLny#O(N))", queue, (long long)c->queue_offset, (long long)c->offset, record_size(c),
                         (const char *)unit, (Py_ssize_t)UNIT, stamp, keyed_of(c, queue, stamp, end));
}

/* `pieces`: the answer cut at message id, queue id, queue offset, key and opaque number. */
static PyObject *answer(const Send *s, const Record *c, PyObject *pieces)
{
    char texts[4][24];
    Piece values[5];
    const long long numbers[4] = {c->offset, c->queue_id, c->queue_offset, s->opaque};
    for (int i = 0; i < 4; i++) {
        int size = snprintf(texts[i], 24, i == 0 ? "%016llX" : "%lld", numbers[i]);
        values[i == 3 ? 4 : i] = (Piece){(const uint8_t *)texts[i], size};
    }
    values[3] = s->unique_key;
    Py_ssize_t size = 8;
    for (int i = 0; i < 6; i++)
        size += PyBytes_GET_SIZE(PyTuple_GET_ITEM(pieces, i)) + (i < 5 ? values[i].size : 0);
    PyObject *frame = PyBytes_FromStringAndSize(NULL, size);
    if (frame == NULL)
        return NULL;
    uint8_t *p = (uint8_t *)PyBytes_AS_STRING(frame);
    p = put(put(p, size - 4, 4), size - 8, 4);
    for (int i = 0; i < 6; i++) {
        p = copy(p, piece_of(PyTuple_GET_ITEM(pieces, i)));
        p = i < 5 ? copy(p, values[i]) : p;
    }
    return frame;
}

/* More than the records of the frames that have arrived can take. */
static Py_ssize_t records_bytes_max(const uint8_t *at, const uint8_t *end, Py_ssize_t added_bytes)
{
    Py_ssize_t total = 0;
    for (int count = 0; count < SENDS_MAX && end - at >= 8 && read_u32(at) <= end - at - 4; count++) {
        total += read_u32(at) + RECORD_HEADER + 8 + added_bytes;
        at += 4 + read_u32(at);
    }
    return total;
}

/* What Python knows of a topic, in the form the checks of a send need; 0 where Python has to look itself. */
static int find_topic(Piece topic, PyObject *entries, PyObject *topics, PyObject **name, PyObject **entry)
{
    *name = PyUnicode_FromStringAndSize((const char *)topic.at, topic.size);
    if (*name == NULL)
        return 0;
    *entry = PyDict_GetItemWithError(entries, *name);
    PyObject *config = PyDict_GetItemWithError(topics, *name);
    Py_XINCREF(*entry);
    if (*entry == NULL || config == NULL)
        return 0;
    PyObject *known = PyObject_GetAttrString(*entry, "config");
    Py_XDECREF(known);
    return known == config && attribute(*entry, "is_ordinary") == 1;
}

static PyObject *sends(PyObject *module, PyObject *args)
{
    PyObject *data, *entries, *topics, *queues, *added, *store_host, *pieces, *born_host;
    PyObject *name = NULL, *entry = NULL, *records = NULL, *result = NULL;
    Py_ssize_t position, room, size_max;
    long long store_ms, offset;
    if (!PyArg_ParseTuple(args, "SnO!O!O!SSO!SLLnn", &data, &position, &PyDict_Type, &entries, &PyDict_Type, &topics,
                          &PyDict_Type, &queues, &added, &store_host, &PyTuple_Type, &pieces, &born_host, &store_ms, &offset,
                          &room, &size_max))
        return NULL;
    if (position < 0 || position > PyBytes_GET_SIZE(data) || PyTuple_GET_SIZE(pieces) != 6 ||
        PyBytes_GET_SIZE(born_host) != 8 || PyBytes_GET_SIZE(store_host) != 8)
        Py_RETURN_NONE;
    uint8_t scratch[HEADER_MAX];
    const uint8_t *base = piece_of(data).at, *at = base + position, *end = base + PyBytes_GET_SIZE(data);
    Send s;
    const uint8_t *frame_end = read_send(at, end, &s, scratch);
    if (frame_end == NULL)
        Py_RETURN_NONE;
    struct {
        PyObject *queue;
        int64_t next;
    } places[QUEUES_MAX] = {0};
    PyObject *notes = PyList_New(0), *answers = PyList_New(0), *stamp = PyLong_FromLongLong(store_ms);
    if (notes == NULL || answers == NULL || stamp == NULL || !find_topic(s.topic, entries, topics, &name, &entry))
        goto done;
    const Piece topic = s.topic;
    uint8_t topic_field[TOPIC_MAX + 1] = {(uint8_t)topic.size};
    copy(topic_field + 1, topic);
    Record c = {.topic = {topic_field, topic.size + 1}, .added = piece_of(added), .born_host = piece_of(born_host),
                .store_host = piece_of(store_host), .store_ms = store_ms};
    const int64_t queue_limit = attribute(entry, "queue_limit"), topic_flags = attribute(entry, "sys_flag");
    records = PyBytes_FromStringAndSize(NULL, records_bytes_max(at, end, c.added.size));
    if (records == NULL || PyErr_Occurred())
        goto done;
    uint8_t *start = (uint8_t *)PyBytes_AS_STRING(records), *p = start;
    for (int count = 0; count < SENDS_MAX && frame_end != NULL; count++) {
        if (s.topic.size != topic.size || memcmp(s.topic.at, topic.at, topic.size) != 0 || s.queue_id >= queue_limit)
            break;
        c.body = s.body, c.properties = s.properties, c.queue_id = s.queue_id, c.flag = s.flag;
        c.sys_flag = s.sys_flag | topic_flags, c.born_ms = s.born_ms, c.reconsume_times = s.reconsume_times;
        const Py_ssize_t size = record_size(&c);
        if (stored_properties(&c) > PROPERTIES_MAX || size > size_max || size > room - (p - start))
            break;
        if (places[s.queue_id].queue == NULL) {
            PyObject *key = Py_BuildValue("(OL)", name, (long long)s.queue_id);
            PyObject *queue = key == NULL ? NULL : PyDict_GetItemWithError(queues, key);
            Py_XDECREF(key);
            if (queue == NULL)
                break;
            places[s.queue_id].queue = Py_NewRef(queue);
            places[s.queue_id].next = attribute(queue, "next_offset");
            if (PyErr_Occurred())
                goto done;
        }
        c.queue_offset = places[s.queue_id].next++;
        c.offset = offset + (p - start);
        p = put_record(p, &c);
        if (!append(notes, note_of(&c, places[s.queue_id].queue, s.tags_code, stamp, p)) ||
            (s.rpc_flag != ONEWAY && !append(answers, answer(&s, &c, pieces))))
            goto done;
        at = frame_end;
        frame_end = read_send(at, end, &s, scratch);
    }
    if (p > start && !PyErr_Occurred() && _PyBytes_Resize(&records, p - start) == 0)
        result = Py_BuildValue("(nOOOO)", (Py_ssize_t)(at - base), entry, records, notes, answers);
done:
    for (int i = 0; i < QUEUES_MAX; i++)
        Py_XDECREF(places[i].queue);
    Py_XDECREF(name);
    Py_XDECREF(entry);
    Py_XDECREF(records);
    Py_XDECREF(notes);
    Py_XDECREF(answers);
    Py_XDECREF(stamp);
    return result != NULL || PyErr_Occurred() ? result : Py_NewRef(Py_None);
}

static PyObject *batch(PyObject *module, PyObject *args)
{
    PyObject *data, *queue, *topic, *added, *born_host, *store_host, *id_prefix;
    long long queue_id, queue_offset, offset, sys_flag, born_ms, store_ms, reconsume_times;
    Py_ssize_t room;
    if (!PyArg_ParseTuple(args, "SOSSLLLnLLSLSLS", &data, &queue, &topic, &added, &queue_id, &queue_offset, &offset, &room,
                          &sys_flag, &born_ms, &born_host, &store_ms, &store_host, &reconsume_times, &id_prefix))
        return NULL;
    const Piece all = piece_of(data);
    const uint8_t *at = all.at, *end = at + all.size;
    Py_ssize_t count = 0;
    while (end - at >= BATCH_ENTRY && read_u32(at) >= BATCH_ENTRY && read_u32(at) <= end - at) {
        at += read_u32(at);
        count++;
    }
    if (at != end || count == 0 || count > BATCH_MAX || sys_flag & ~ORDINARY_FLAGS ||
        reconsume_times != (int32_t)reconsume_times || PyBytes_GET_SIZE(topic) > TOPIC_MAX + 1 ||
        PyBytes_GET_SIZE(born_host) != 8 || PyBytes_GET_SIZE(store_host) != 8)
        Py_RETURN_NONE;
    const Piece prefix = piece_of(id_prefix);
    Record c = {.topic = piece_of(topic), .added = piece_of(added), .born_host = piece_of(born_host),
                .store_host = piece_of(store_host), .queue_id = queue_id, .queue_offset = queue_offset,
                .sys_flag = sys_flag, .born_ms = born_ms, .store_ms = store_ms, .reconsume_times = reconsume_times};
    PyObject *records = PyBytes_FromStringAndSize(
        NULL, all.size + count * (RECORD_HEADER + c.topic.size + c.added.size + 1));
    PyObject *keyed = PyList_New(0), *stamp = PyLong_FromLongLong(store_ms), *result = NULL;
    PyObject *units = PyBytes_FromStringAndSize(NULL, count * UNIT);
    PyObject *ids = PyUnicode_New(count * (prefix.size + 17) - 1, 127);
    if (records == NULL || keyed == NULL || stamp == NULL || units == NULL || ids == NULL)
        goto done;
    uint8_t *start = (uint8_t *)PyBytes_AS_STRING(records), *p = start;
    uint8_t *unit = (uint8_t *)PyBytes_AS_STRING(units), *id = PyUnicode_1BYTE_DATA(ids), *first_id = id;
    for (at = all.at; at < end; at += read_u32(at)) {
        const Py_ssize_t total = read_u32(at), body = read_u32(at + 16);
        if (body > total - BATCH_ENTRY)
            goto done;
        c.body = (Piece){at + 20, body};
        c.properties = (Piece){at + BATCH_ENTRY + body, at[20 + body] << 8 | at[21 + body]};
        c.flag = (int32_t)read_u32(at + 12);
        c.offset = offset + (p - start);
        if (BATCH_ENTRY + body + c.properties.size != total || stored_properties(&c) > PROPERTIES_MAX ||
            record_size(&c) > room - (p - start))
            goto done;
        uint32_t tags_code = 0;
        const Piece tag = property(c.properties, "TAGS\1");
        if (!java_hash(tag, &tags_code))
            goto done;
        p = put_record(p, &c);
        unit = put_unit(unit, &c, (int32_t)tags_code);
        if (!append(keyed, keyed_of(&c, queue, stamp, p)))
            goto done;
        if (id > first_id)
            *id++ = ',';
        id = copy(id, prefix);
        for (int shift = 60; shift >= 0; shift -= 4)
            *id++ = "0123456789ABCDEF"[c.offset >> shift & 15];
        c.queue_offset++;
    }
    if (_PyBytes_Resize(&records, p - start) == 0)
        result = Py_BuildValue("(OOOO)", records, units, keyed, ids);
done:
    Py_XDECREF(records);
    Py_XDECREF(units);
    Py_XDECREF(keyed);
    Py_XDECREF(ids);
    Py_XDECREF(stamp);
    return result != NULL || PyErr_Occurred() ? result : Py_NewRef(Py_None);
}

static PyObject *hash_keys(PyObject *module, PyObject *args)
{
    PyObject *records, *keys;
    long long end_offset;
    if (!PyArg_ParseTuple(args, "O!L", &PyList_Type, &records, &end_offset) || (keys = PyList_New(0)) == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(records); i++) {
        PyObject *queue, *offset, *stamp, *properties;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(records, i), "OO!OS", &queue, &PyLong_Type, &offset, &stamp, &properties))
            goto failed;
        if (PyLong_AsLongLong(offset) < end_offset)
            continue;
        PyObject *topic_hash = PyObject_GetAttrString(queue, "topic_hash");
        if (topic_hash == NULL || !PyLong_Check(topic_hash)) {
            Py_XDECREF(topic_hash);
            goto failed; /* Python computes it, once for a queue */
        }
        const uint32_t seed = (uint32_t)PyLong_AsUnsignedLongMask(topic_hash);
        Py_DECREF(topic_hash);
        const Piece unique = property(piece_of(properties), "UNIQ_KEY\1");
        uint32_t hash = seed;
        if (!java_hash(unique, &hash) || (unique.size && !append(keys, Py_BuildValue("(IOO)", hash, offset, stamp))))
            goto failed;
        for (Piece left = property(piece_of(properties), "KEYS\1"); left.size > 0;) {
            const uint8_t *space = memchr(left.at, ' ', left.size);
            const Piece word = {left.at, space ? space - left.at : left.size};
            hash = seed;
            if (!java_hash(word, &hash) || (word.size && !append(keys, Py_BuildValue("(IOO)", hash, offset, stamp))))
                goto failed;
            left = (Piece){left.at + word.size + 1, left.size - word.size - 1};
        }
    }
    return keys;
failed:
    Py_DECREF(keys);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

/* Other threads see all of it or nothing: the interpreter's lock is held. */
static PyObject *index_keys(PyObject *module, PyObject *args)
{
    Py_buffer map;
    PyObject *keys;
    long long first, begin_ms, slot_num, entries_start;
    if (!PyArg_ParseTuple(args, "w*O!LLLL", &map, &PyList_Type, &keys, &first, &begin_ms, &slot_num, &entries_start))
        return NULL;
    uint8_t *base = map.buf;
    long long used = 0;
    const Py_ssize_t size = PyList_GET_SIZE(keys);
    int is_within = first >= 1 && first <= INT32_MAX - size && slot_num >= 1 && slot_num <= INT32_MAX &&
                    entries_start >= 40 + 4 * slot_num && entries_start <= map.len &&
                    20 * (first + size) <= map.len - entries_start;
    for (Py_ssize_t i = 0; i < 2 * size && is_within; i++) {
        unsigned int hash;
        long long offset, stamp;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(keys, i % size), "ILL", &hash, &offset, &stamp))
            break;
        hash = hash < 0x80000000u ? hash : (0u - hash) & 0x7fffffff;
        uint8_t *slot = base + 40 + hash % slot_num * 4;
        const int32_t previous = (int32_t)read_u32(slot);
        if (i < size) { /* Slots that name no entry of this file were left by a process that died. */
            if (previous < 0 || previous >= first) {
                put(slot, 0, 4);
                used--;
            }
            continue;
        }
        used += previous == 0;
        const long long seconds = begin_ms > 0 && stamp > begin_ms ? (stamp - begin_ms) / 1000 : 0;
        const long long entry = first + i - size;
        uint8_t *p = put(put(base + entries_start + entry * 20, hash, 4), offset, 8);
        put(put(p, seconds < INT32_MAX ? seconds : INT32_MAX, 4), previous, 4);
        put(slot, entry, 4);
    }
    PyBuffer_Release(&map);
    if (!is_within && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "the keys do not fit the index file");
    return PyErr_Occurred() ? NULL : PyLong_FromLongLong(used);
}

static PyMethodDef METHODS[] = {
    {"sends", sends, METH_VARARGS, NULL},
    {"batch", batch, METH_VARARGS, NULL},
    {"hash_keys", hash_keys, METH_VARARGS, NULL},
    {"index_keys", index_keys, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "hot", NULL, -1, METHODS, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_hot(void)
{
    return PyModule_Create(&MODULE);
}
