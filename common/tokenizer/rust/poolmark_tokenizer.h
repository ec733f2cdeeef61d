/* The C side of the Rust tokenizer (src/lib.rs). A handle may be used by several threads at once.
 * Functions return 0, or -1 with *error set to a text that the caller frees with pmtok_free_text(). Texts are
 * UTF-8 with their length; what is given out ends in NUL besides. No panic crosses this border. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pmtok_tokenizer pmtok_tokenizer;

/* From the text of a tokenizer.json, a Jinja chat template and a JSON object of its globals (bos_token, ...).
 * NULL with *error on failure. */
pmtok_tokenizer* pmtok_open(const char* json, size_t json_size, const char* jinja, size_t jinja_size,
                            const char* globals, size_t globals_size, char** error);
void pmtok_free(pmtok_tokenizer* tokenizer);

/* Token ids, with the special tokens that the tokenizer adds to a text when `special` is not 0; freed with
 * pmtok_free_ids(). */
int pmtok_encode(const pmtok_tokenizer* tokenizer, const char* text, size_t size, int special, uint32_t** ids,
                 size_t* count, char** error);
void pmtok_free_ids(uint32_t* ids, size_t count);

/* The chat template over `messages` (JSON array of {role, content}) with `kwargs` (JSON object) and
 * add_generation_prompt = true; *text freed with pmtok_free_text(). Interior NULs are dropped. */
int pmtok_render(const pmtok_tokenizer* tokenizer, const char* messages, size_t messages_size,
                 const char* kwargs, size_t kwargs_size, char** text, char** error);
void pmtok_free_text(char* text);

#ifdef __cplusplus
}
#endif
