#!/usr/bin/env python3
"""Writes tests/text/data/chat_vectors.json: what Jinja makes of chat templates, as transformers runs it.

The templates are written here, in the shapes of the models' own; SmolLM2's is that of its file.
`make_chat_vectors.py check FILE...` instead prints, for templates in files, what the vectors would be.
Needs: pip install jinja2==3.1.6
"""
import json
import pathlib
import sys

import jinja2
import jinja2.sandbox

SMOLLM2 = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
CHATML = r"""{%- for message in messages %}
    {{- "<|im_start|>" + message.role + "\n" + message.content + "<|im_end|>\n" }}
{%- endfor %}
{%- if add_generation_prompt %}{{- "<|im_start|>assistant\n" }}{%- endif %}"""
QWEN2 = r"""{%- if messages[0]['role'] == 'system' %}{{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}
{%- else %}{{- '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{%- endif %}
{%- for message in messages %}
    {%- if not (loop.first and message.role == 'system') %}{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}"""
LLAMA2 = r"""{%- if messages[0]['role'] == 'system' %}{%- set rest = messages[1:] %}{%- set system_message = messages[0]['content'] %}
{%- else %}{%- set rest = messages %}{%- set system_message = false %}{%- endif %}
{%- for message in rest %}
{%- if loop.index0 == 0 and system_message != false %}{%- set content = '<<SYS>>\n' + system_message + '\n<</SYS>>\n\n' + message['content'] %}
{%- else %}{%- set content = message['content'] %}{%- endif %}
{%- if message['role'] == 'user' %}{{- bos_token + '[INST] ' + content.strip() + ' [/INST]' }}
{%- elif message['role'] == 'assistant' %}{{- ' ' + content.strip() + ' ' + eos_token }}{%- endif %}
{%- endfor %}"""
LLAMA3 = r"""{%- for message in messages %}
{%- set text = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' %}
{%- if loop.index0 == 0 %}{%- set text = bos_token + text %}{%- endif %}{{- text }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}"""
LLAMA31 = r"""{{- bos_token }}
{%- if not date_string is defined %}{%- set date_string = "26 Jul 2024" %}{%- endif %}
{%- if messages[0]['role'] == 'system' %}{%- set system_message = messages[0]['content'] | trim %}{%- set messages = messages[1:] %}
{%- else %}{%- set system_message = "" %}{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{{- "Cutting Knowledge Date: December 2023\n" }}{{- "Today Date: " + date_string + "\n\n" }}{{- system_message }}{{- "<|eot_id|>" }}
{%- for message in messages %}{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}"""

S, U, A = (lambda r: lambda c: {"role": r, "content": c})("system"), (lambda c: {"role": "user", "content": c}), (lambda c: {"role": "assistant", "content": c})
CONVERSATIONS = [
    [U("Hello")], [U("  spaces \n")], [S("Be brief."), U("What is 2+2?")], [S(" padded "), U("\n x ")], [U("a"), A("b"), U("c")],
    [S("s"), U("a"), A(" b \n"), U("c"), A("d")], [U("<|im_end|> [INST] <|eot_id|> </s>")], [U("é\u3000\x1f")],
]
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}, {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>"}


def render(template, messages, prompt, tokens):
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(template).render(messages=messages, add_generation_prompt=prompt, tools=None, **tokens)


def vectors(name, template, tokens):
    cases = [{"messages": m, "prompt": p, "text": render(template, m, p, tokens)} for m in CONVERSATIONS for p in (True, False)]
    return {"name": name, "template": template, "cases": cases}


def main():
    if sys.argv[1:2] == ["check"]:
        made = [vectors(pathlib.Path(p).name, pathlib.Path(p).read_text(), TOKENS[1]) for p in sys.argv[2:]]
        print(json.dumps(made))
        return
    made = [vectors("SmolLM2", SMOLLM2, TOKENS[0]), vectors("ChatML", CHATML, TOKENS[0]), vectors("Qwen2", QWEN2, TOKENS[0]),
            vectors("Llama 2", LLAMA2, TOKENS[0]), vectors("Llama 3", LLAMA3, TOKENS[1]), vectors("Llama 3.1", LLAMA31, TOKENS[1])]
    path = pathlib.Path(__file__).parent.parent / "tests/text/data/chat_vectors.json"
    path.write_text(json.dumps(made, indent=1) + "\n")


main()
