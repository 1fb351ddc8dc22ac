#!/usr/bin/env python3
"""Makes the tokenizers' test vectors with Hugging Face tokenizers, an independent implementation.

  make_tokenizer_vectors.py small            trains the small vocabulary; writes small_tokenizer.json, small_vectors.json
  make_tokenizer_vectors.py smollm2 GGUF     writes smollm2_vectors.json from the file's vocabulary and merges
  make_tokenizer_vectors.py compare GGUF OUT writes OUT.tokenizer.json and OUT.vectors.json with thousands of strings

Needs: pip install tokenizers==0.23.3 gguf==0.19.0
"""
import json
import pathlib
import random
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).parent.parent
DATA = ROOT / "tests/text/data"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
HEAD = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
PATTERNS = {"llama-bpe": HEAD + r"\p{N}{1,3}" + TAIL, "qwen2": HEAD + r"\p{N}" + TAIL}

TRICKY = [
    "", " ", "  ", "   ", "Hello", " Hello", "  Hello", "   Hello", "    Hello", "Hello, world!", "Hello world",
    "\n", "\n\n", "\n\n\n", "\t", "\t\t", "\t\n", "\r\n", "\r\n\r\n", " \n", "\n ", "\n  x", "x  \n\n  y", "a\n b\n  c\n",
    "\n =", "' era", "I've we'll they're it's I'm you'd don't", "I'VE WE'LL THEY'RE IT'S", "'s's's", "''s", "x'", "'ſ 'ſt",
    "1", "12", "123", "1234", "12345", "123456789", " 123", "a1b22c333", "3.14159", "1,000,000", "٣٤٥", "½⅓", "Ⅷ", "²³",
    "Hello, y'all! How are you 😁 ?我想在apple工作1314151天～", "ied 4 ½ months", "Führer", "你好，世界", "こんにちは世界", "안녕하세요",
    "привет мир", "مرحبا بالعالم", "नमस्ते दुनिया", "ไทย ภาษา", "🚀 (normal) 😶‍🌫️ (multiple emojis concatenated) ✅ 🦙🦙",
    "é e\u0301", "ﬁ ﬀ", "İstanbul ß", "\u00a0x\u00a0", "\u3000全角\u3000", "a\u200bb", "\u180ex", "x\u2028y\u2029z", "\x85x", "\x0b\x0c",
    "<|im_start|>", "<|im_end|>", "<|im_start|>user\nHi<|im_end|>\n", "a<|im_end|>b", "a <|im_end|> b", "<|im_start", "<|im_end|", "<|endoftext|>x",
    "<|im_start|><|im_end|>", "<<|im_end|>>", "def f(x):\n    return x + 1\n", "for (int i = 0; i < n; ++i) { a[i] += 2; }", "#include <vector>\n",
    "http://example.com/?a=1&b=2#c", "user@example.com", "C:\\path\\file.txt", "$100 + 20% = €120", "a=b<c>d^e~f|g`h", "...!!!???", "------", "====",
    "snake_case camelCase PascalCase", "MiXeD", "e" * 100, " " * 100, "\n" * 50, "ab" * 60, "=" * 70, "x " * 40, "The quick brown fox jumps over the lazy dog.",
    " leading and trailing ", "tab\tseparated\tvalues", "zero\u0000byte"[:4], "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "a\u0300\u0301b", "ǅ ǆ", "ªº", "㈠㊀", "_", "__init__", "#", "##", "### Title",
]
ALPHABET = list("aabcdeehiilmnoorsttuvw  ''\n\r\t.,!?-+=<>|$123456789ESTLDRVM") + [
    " ", " ", "é", "ß", "я", "中", "の", "한", "٣", "½", "²", "😁", "\u00a0", "\u3000", "\u2028", "\u0301", "—", "“", "€", "ſ", "\u200d", "\U0001d518"]


def strings(count, seed=1):
    r = random.Random(seed)
    made = []
    for _ in range(count):
        made.append("".join(r.choice(ALPHABET) for _ in range(r.randint(1, 40))))
    return made


def marked_strings(count, seed=3):
    r = random.Random(seed)
    letters = list("aeonAEKs ") + ["\u1100", "\u1161", "\u11a8", "\uac00", "\u212b", "\u1e69", "\u0958", "\ufb1d", "\u0f77", "\u2adc", "\U0001d15e", "é", "ệ", "\u0cca"]
    marks = ["\u0300", "\u0301", "\u0302", "\u0307", "\u0323", "\u0327", "\u030c", "\u0338", "\u0345", "\u0334", "\u05b4", "\u093c", "\u0cc2", "\u3099"]
    return ["".join(r.choice(letters if r.random() < 0.5 else marks) for _ in range(r.randint(1, 12))) for _ in range(count)]


def pre_tokenizer(name):
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=name not in PATTERNS)
    if name in PATTERNS:
        return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(PATTERNS[name]), behavior="isolated"), byte_level])
    if name == "smollm":
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    assert name == "gpt-2", name
    return byte_level


def vectors(tokenizer, texts):
    return [[text, tokenizer.encode(text, add_special_tokens=False).ids] for text in texts]


def write(path, value):
    lines = ",\n".join(json.dumps(each, ensure_ascii=True) for each in value) if isinstance(value, list) else None
    path.write_text("[\n" + lines + "\n]\n" if lines else json.dumps(value, ensure_ascii=True, indent=0) + "\n")


def small():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer("smollm")
    tokenizer.decoder = decoders.ByteLevel()
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=specials, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    # A text of our own, so that the vocabulary is ours to give away.
    corpus = [t for t in TRICKY if "<|" not in t] * 2 + ["the answer is that there are no other tokens in this small vocabulary of tests",
              "a deep-learning engine whose bits depend only on program, inputs and numerics version", "hello there, the weather is fine"] * 3
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_tokens([AddedToken("ilÖveyou", normalized=False), AddedToken("<think>", normalized=True)])
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=False, special=True), AddedToken("<sep>", rstrip=True, special=True)])
    (DATA / "small_tokenizer.json").write_text(tokenizer.to_str(pretty=False) + "\n")
    extra = ["ilÖveyou", "x ilÖveyouy", "a <think> b", "a  <mask>  b", "a  <sep>  b", "<mask><sep> \n x", " <mask>"]
    result = []
    for name in ["smollm", "gpt-2", "llama-bpe", "qwen2"]:
        tokenizer.pre_tokenizer = pre_tokenizer(name)
        result += [[name] + v for v in vectors(tokenizer, TRICKY + extra + strings(120))]
    tokenizer.normalizer = normalizers.NFC()  # with the last pre-tokenizer: Qwen2 as it is
    result += [["qwen2-nfc"] + v for v in vectors(tokenizer, TRICKY + marked_strings(150))]
    write(DATA / "small_vectors.json", result)


def from_gguf(path):
    import gguf
    fields = gguf.GGUFReader(path).fields
    get = lambda key: fields["tokenizer.ggml." + key].contents()
    tokens, kinds, merges, pre = get("tokens"), get("token_type"), get("merges"), get("pre")
    vocabulary = {t: i for i, t in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[tuple(m.split(" ", 1)) for m in merges], ignore_merges=pre == "llama-bpe"))
    tokenizer.pre_tokenizer = pre_tokenizer(pre)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, kinds) if k == 3])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t, k in zip(tokens, kinds) if k == 4])
    return tokenizer


def main():
    if sys.argv[1] == "small":
        small()
    elif sys.argv[1] == "smollm2":
        write(DATA / "smollm2_vectors.json", vectors(from_gguf(sys.argv[2]), TRICKY + strings(200)))
    else:
        tokenizer = from_gguf(sys.argv[2])
        pathlib.Path(sys.argv[3] + ".tokenizer.json").write_text(tokenizer.to_str())
        write(pathlib.Path(sys.argv[3] + ".vectors.json"), vectors(tokenizer, TRICKY + strings(20000, 2)))


main()
