#!/usr/bin/env python3
"""Writes a tiny Llama with seeded random weights as GGUF: enough for an engine to compute real KV, no sense in its answers.

Vocabulary: 256 bytes, a few merges, and filler tokens up to 2048, so that prompts can be sent as token ids 300..2047.
Without temperature every token of an answer is a filler token and so a word: a byte alone may be no character, and an
answer of such bytes no output."""
import sys

import gguf
import numpy as np

HIDDEN, LAYERS, HEADS, KV_HEADS, FEED, CONTEXT, VOCAB = 128, 2, 4, 2, 256, 16384, 2048


def byte_characters():
    """The printable stand-ins that GPT-2's byte-level BPE uses for the 256 bytes."""
    plain = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, extra = {}, 0
    for byte in range(256):
        if byte in plain:
            table[byte] = chr(byte)
        else:
            table[byte] = chr(256 + extra)
            extra += 1
    return [table[byte] for byte in range(256)]


def main(path):
    random = np.random.default_rng(7)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("poolmark-tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_vocab_size(VOCAB)

    characters = byte_characters()
    tokens = ["<|pad|>", "<|bos|>", "<|eos|>"] + characters
    merges = ["t h", "i n", "e r", "a n"]
    tokens += [merge.replace(" ", "") for merge in merges]
    while len(tokens) < VOCAB:
        tokens.append(f"\u0120w{len(tokens)}")  # a word that starts with a space
    kinds = [gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.NORMAL] * (VOCAB - 3)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)
    writer.add_chat_template("{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: ")

    def tensor(name, *shape):
        writer.add_tensor(name, (random.standard_normal(shape) * 0.05).astype(np.float32))

    tensor("token_embd.weight", VOCAB, HIDDEN)
    output = (random.standard_normal((VOCAB, HIDDEN)) * 0.05).astype(np.float32)
    output[: 3 + 256] = 0  # of 1 789 other random logits the largest is above zero
    writer.add_tensor("output.weight", output)
    writer.add_tensor("output_norm.weight", np.ones(HIDDEN, dtype=np.float32))
    head = HIDDEN // HEADS
    for layer in range(LAYERS):
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{layer}.{norm}.weight", np.ones(HIDDEN, dtype=np.float32))
        tensor(f"blk.{layer}.attn_q.weight", HIDDEN, HIDDEN)
        tensor(f"blk.{layer}.attn_k.weight", KV_HEADS * head, HIDDEN)
        tensor(f"blk.{layer}.attn_v.weight", KV_HEADS * head, HIDDEN)
        tensor(f"blk.{layer}.attn_output.weight", HIDDEN, HIDDEN)
        tensor(f"blk.{layer}.ffn_gate.weight", FEED, HIDDEN)
        tensor(f"blk.{layer}.ffn_up.weight", FEED, HIDDEN)
        tensor(f"blk.{layer}.ffn_down.weight", HIDDEN, FEED)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main(sys.argv[1])
