/* Non-contiguous datatypes at eager and rendezvous sizes: packed, unpacked, with gaps untouched.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A layout is a list of (displacement, length) pieces of one element. It is sent typed and received
 * typed, as bytes, and the other way round; what lies between the pieces must keep its poison.
 */
#include <stddef.h>

#include "check.h"

#define MAX_PIECES 64

struct layout {
    const char *name;
    MPI_Datatype type;
    size_t extent; /* bytes from one element to the next */
    size_t length; /* payload bytes of one element */
    int pieces;
    struct {
        size_t at;
        size_t length;
    } piece[MAX_PIECES];
};

struct gappy {
    char c;
    double d; /* after 7 bytes of gap */
    short s[3];
    int i; /* after 2 bytes of gap */
};

static void add_piece(struct layout *layout, size_t at, size_t length)
{
    layout->piece[layout->pieces].at = at;
    layout->piece[layout->pieces].length = length;
    layout->pieces++;
    layout->length += length;
}

static void make_vector(struct layout *layout)
{
    /* 16 blocks of 3 ints, 5 ints apart */
    MPI_Datatype vector;
    *layout = (struct layout){.name = "vector", .extent = 16 * 5 * sizeof(int)};
    MPI_Type_vector(16, 3, 5, MPI_INT, &vector);
    MPI_Type_create_resized(vector, 0, (MPI_Aint)layout->extent, &layout->type);
    MPI_Type_free(&vector);
    for (size_t i = 0; i < 16; i++) {
        add_piece(layout, i * 5 * sizeof(int), 3 * sizeof(int));
    }
}

static void make_indexed(struct layout *layout)
{
    /* odd byte places, uneven lengths, one of them empty */
    int lengths[] = {1, 7, 0, 64, 3, 129};
    int places[] = {1, 5, 20, 33, 100, 111};
    MPI_Datatype indexed;
    *layout = (struct layout){.name = "indexed", .extent = 256};
    MPI_Type_indexed(6, lengths, places, MPI_BYTE, &indexed);
    MPI_Type_create_resized(indexed, 0, (MPI_Aint)layout->extent, &layout->type);
    MPI_Type_free(&indexed);
    for (int i = 0; i < 6; i++) {
        add_piece(layout, (size_t)places[i], (size_t)lengths[i]);
    }
}

static void make_struct(struct layout *layout)
{
    int lengths[] = {1, 1, 3, 1};
    MPI_Aint places[] = {offsetof(struct gappy, c), offsetof(struct gappy, d),
                         offsetof(struct gappy, s), offsetof(struct gappy, i)};
    MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT, MPI_INT};
    MPI_Datatype structure;
    *layout = (struct layout){.name = "struct", .extent = sizeof(struct gappy)};
    MPI_Type_create_struct(4, lengths, places, types, &structure);
    MPI_Type_create_resized(structure, 0, (MPI_Aint)layout->extent, &layout->type);
    MPI_Type_free(&structure);
    add_piece(layout, offsetof(struct gappy, c), sizeof(char));
    add_piece(layout, offsetof(struct gappy, d), sizeof(double));
    add_piece(layout, offsetof(struct gappy, s), 3 * sizeof(short));
    add_piece(layout, offsetof(struct gappy, i), sizeof(int));
}

static void make_subarray(struct layout *layout)
{
    /* rows 2..9, columns 1..24 of a 16 x 32 array of doubles */
    int whole[] = {16, 32}, part[] = {8, 24}, start[] = {2, 1};
    *layout = (struct layout){.name = "subarray", .extent = sizeof(double) * 16 * 32};
    MPI_Type_create_subarray(2, whole, part, start, MPI_ORDER_C, MPI_DOUBLE, &layout->type);
    for (size_t row = 2; row < 10; row++) {
        add_piece(layout, (row * 32 + 1) * sizeof(double), 24 * sizeof(double));
    }
}

static void make_contiguous(struct layout *layout)
{
    *layout = (struct layout){.name = "contiguous", .extent = 96};
    MPI_Type_contiguous(96, MPI_BYTE, &layout->type);
    add_piece(layout, 0, 96);
}

/* Large blocks far apart: pieces longer than an eager message */
static void make_blocks(struct layout *layout)
{
    MPI_Datatype vector;
    *layout = (struct layout){.name = "large blocks", .extent = 4 * 20000};
    MPI_Type_create_hvector(4, 15000, 20000, MPI_BYTE, &vector);
    MPI_Type_create_resized(vector, 0, (MPI_Aint)layout->extent, &layout->type);
    MPI_Type_free(&vector);
    for (size_t i = 0; i < 4; i++) {
        add_piece(layout, i * 20000, 15000);
    }
}

static void fill_elements(const struct layout *layout, unsigned char *buffer, size_t count,
                          uint64_t key)
{
    uint64_t offset = 0;
    for (size_t e = 0; e < count; e++) {
        for (int p = 0; p < layout->pieces; p++) {
            chk_fill_at(buffer + e * layout->extent + layout->piece[p].at, layout->piece[p].length,
                        key, offset);
            offset += layout->piece[p].length;
        }
    }
}

static void verify_elements(const struct layout *layout, const unsigned char *buffer, size_t count,
                            int from, int tag, uint64_t key)
{
    uint64_t offset = 0;
    for (size_t e = 0; e < count; e++) {
        const unsigned char *element = buffer + e * layout->extent;
        size_t seen = 0;
        for (int p = 0; p < layout->pieces; p++) {
            chk_untouched(element + seen, layout->piece[p].at - seen, CHK_POISON_BYTE, "gap");
            chk_verify_at(element + layout->piece[p].at, layout->piece[p].length, from, tag, key,
                          offset);
            offset += layout->piece[p].length;
            seen = layout->piece[p].at + layout->piece[p].length;
        }
        chk_untouched(element + seen, layout->extent - seen, CHK_POISON_BYTE, "gap at the end");
    }
    chk.messages++;
}

/* typed_out, typed_in: with the layout's type, otherwise as plain bytes */
static void one_message(const struct layout *layout, size_t count, int peer, int typed_out,
                        int typed_in, int tag)
{
    size_t spread = count * layout->extent, packed = count * layout->length;
    size_t out_size = typed_out ? spread : packed, in_size = typed_in ? spread : packed;
    unsigned char *out = chk_alloc(out_size);
    unsigned char *in = chk_alloc(in_size);
    uint64_t key = chk_key(chk.rank, peer, tag, packed);
    if (typed_out) {
        fill_elements(layout, out, count, key);
    } else {
        chk_fill(out, packed, key);
    }
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Irecv(in, (int)(typed_in ? count : packed), typed_in ? layout->type : MPI_BYTE, peer, tag,
              MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, (int)(typed_out ? count : packed), typed_out ? layout->type : MPI_BYTE, peer,
              tag, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, statuses);
    chk_verify_status(&statuses[0], peer, tag, packed);
    key = chk_key(peer, chk.rank, tag, packed);
    if (typed_in) {
        verify_elements(layout, in, count, peer, tag, key);
    } else {
        chk_verify_from(in, packed, peer, tag, packed);
    }
    chk_free(out, out_size);
    chk_free(in, in_size);
}

int main(int argc, char **argv)
{
    chk_begin(&argc, &argv,
              &(struct chk){.name = "datatypes",
                            .about = "Non-contiguous datatypes of all sizes, gaps untouched.",
                            .iterations = 1,
                            .max_size = 2 << 20});
    chk_need_ranks(2);
    static struct layout layouts[6];
    make_contiguous(&layouts[0]);
    make_vector(&layouts[1]);
    make_indexed(&layouts[2]);
    make_struct(&layouts[3]);
    make_subarray(&layouts[4]);
    make_blocks(&layouts[5]);
    /* Ranks whose sum is the same (modulo the number of ranks) meet; each meets all in turn. */
    for (int sum = 0; sum < chk.size; sum++) {
        int peer = (chk.size + sum - chk.rank) % chk.size;
        for (int l = 0; l < 6 && peer != chk.rank; l++) {
            struct layout *layout = &layouts[l];
            MPI_Type_commit(&layout->type);
            for (size_t count = 0; count * layout->length <= chk.max_size;
                 count = count < 3 ? count + 1 : count * 3 - 1) {
                for (uint64_t i = 0; i < 4 * chk.iterations; i++) {
                    chk_step("%s x %zu with %d, round %llu", layout->name, count, peer,
                             (unsigned long long)i);
                    one_message(layout, count, peer, i % 4 < 2, i % 2 == 0 ? 1 : i % 4 == 3,
                                (int)(i % 1000));
                }
            }
        }
    }
    for (int l = 0; l < 6; l++) {
        MPI_Type_free(&layouts[l].type);
    }
    return chk_end();
}
