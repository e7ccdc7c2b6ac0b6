/* What a plain loop needs at least: every frame's bytes read once, every string and number found.

   split FILE PASSES: the frames of a file, one in a line, are split into their tokens so many times.
   It says how much CPU time a frame took and how many tokens there were. Nothing is made of them. */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct token {
    const char *first;
    size_t length;
};

static size_t split(const char *at, const char *end, struct token *tokens) {
    size_t count = 0;
    while (at < end) {
        const char *first = at;
        if (*at == '"') {
            for (at = ++first; at < end && *at != '"'; at++)
                if (*at == '\\')
                    at++;
            tokens[count++] = (struct token){first, (size_t)(at - first)};
            at++;
        } else if (*at == '-' || (*at >= '0' && *at <= '9')) {
            while (at < end && *at != ',' && *at != '}' && *at != ']')
                at++;
            tokens[count++] = (struct token){first, (size_t)(at - first)};
        } else {
            at++;
        }
    }
    return count;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    FILE *file = fopen(argv[1], "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        return 1;
    long size = ftell(file);
    rewind(file);
    char *data = malloc((size_t)size + 1);
    struct token *tokens = malloc(((size_t)size + 1) * sizeof *tokens);
    if (data == NULL || tokens == NULL || fread(data, 1, (size_t)size, file) != (size_t)size)
        return 1;
    data[size] = '\n';
    size_t frames = 0, found = 0, bytes = 0;
    clock_t began = clock();
    for (int pass = 0; pass < atoi(argv[2]); pass++) {
        for (const char *at = data; at < data + size; frames++) {
            const char *end = at;
            while (*end != '\n')
                end++;
            size_t count = split(at, end, tokens);
            /* The last one is looked at, so that the compiler leaves none out. */
            found += count;
            bytes += count ? tokens[count - 1].length : 0;
            at = end + 1;
        }
    }
    double us = 1e6 * (double)(clock() - began) / CLOCKS_PER_SEC;
    printf("{\"us\": %.4f, \"frames\": %zu, \"tokens\": %zu, \"last\": %zu}\n", us / (double)frames,
           frames, found, bytes);
    return 0;
}
