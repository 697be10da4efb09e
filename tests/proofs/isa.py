"""Which instruction set an instruction belongs to, as far as this project needs to tell them apart.

Rules of this file: what x86-64 always has is "base"; an instruction that fits no rule and is a vector one counts as
"other", which no part of the core may use. Names as in Intel SDM, volume 2.
"""

from __future__ import annotations

import re

from .disassembly import Instruction

_BMI = re.compile(r"(shlx|shrx|sarx|rorx|bzhi|mulx|pdep|pext|andn|bextr|blsi|blsr|blsmsk|tzcnt)$")
_OTHER = re.compile(
    r"(popcnt|lzcnt|movbe|crc32|adcx|adox|rdrand|rdseed|sha\w+|gf2p8\w+|pcmpgtq|pcmp[ei]str\w+)$"
    r"|v(gf2p8|popcnt|pdp|pmadd52|pcompress|pexpand|pshld|pshrd|sha|fn?m|cvtph|cvtps2ph|dbpsad|pmullq)\w*$"
    r"|v(broadcast|extract|insert)[if](64x2|32x8)$|v(broadcast)[if]32x2$|vpmov([bwdq]2m|m2[bwdq])$|k\w+b$|v(range|reduce|fpclass)"
)
_SSE4 = re.compile(
    r"pshufb|palignr|phadd|phsub|pmaddubsw|psign|pabs|pmulhrsw|lddqu|mov(d|sh|sl)dup|addsubp|haddp|hsubp|p?blend"
    r"|pextr[bdq]|pinsr[bdq]|pm(in|ax)(sb|sd|uw|ud)|pmov[sz]x|pmuldq|pmulld|ptest|round[ps]|pcmpeqq|packusdw|mpsadbw"
    r"|insertps|extractps|dpp[sd]|movntdqa"
)
_AVX512_NAMES = re.compile(
    r"vmovdq[au](8|16|32|64)$|vp(ternlog|permt2|permi2|rol|ror|scatter|broadcastm|blendm|conflict|testn?m)"
    r"|vp(xor|or|and|andn)[dq]$|vperm[bw]$|v(broadcast|extract|insert|shuf)[if](32x4|64x4|64x2)$|vpabsq|vpsraq|vpm(in|ax)[su]q"
    r"|vpcmp(n?l[te]|n?eq|u|gt|ge)?\w*[bwdq]$|vpmov[bwdq]|vpmovu?s?[wdq]\w+|valign"
)
_AVX2_COMPARES = re.compile(r"vpcmp(eq|gt)[bwdq]$")


def instruction_set(i: Instruction) -> str:
    """Return "base", "sse4", "aes", "pclmul", "avx2", "vaes", "avx512", "vpclmul", "bmi2" or "other"."""
    registers = re.findall(r"\b([xyz]mm\d+|k[0-7])\b", i.text)
    numbers = [int(name[3:]) for name in registers if name[0] != "k"]
    evex = any(name[0] in "zk" for name in registers) or any(number > 15 for number in numbers)
    if _OTHER.match(i.name):
        return "other"
    if _BMI.match(i.name):
        return "bmi2"
    if "pclmul" in i.name:
        return "vpclmul" if i.name[0] == "v" else "pclmul"
    if re.match(r"vaes\w+$", i.name):
        return "avx512" if evex else "vaes"
    if i.name[0] == "v" or evex or i.name.startswith("k"):
        named = _AVX512_NAMES.match(i.name) and not (_AVX2_COMPARES.match(i.name) and not evex)
        named = named and not re.match(r"vpmov([sz]x|mskb)", i.name)
        return "avx512" if evex or named else "avx2"
    if i.name.startswith("aes"):
        return "aes"
    return "sse4" if _SSE4.match(i.name) else "base"


#: What each source may use, which is what its TARGET attribute names and cpu.c asks for; other sources only "base".
ALLOWED = {
    "kernel_vaes512.c": {"base", "avx2", "vaes", "avx512", "bmi2"},
    "kernel_vaes256.c": {"base", "avx2", "vaes"},
    "kernel_aesni.c": {"base", "sse4", "aes"},
    "polyval_vpclmul.c": {"base", "sse4", "pclmul", "avx2", "avx512", "vpclmul"},
    "polyval_pclmul.c": {"base", "sse4", "pclmul"},
    "aes_block.c": {"base", "sse4", "aes"},
}


def may_use(source: str, function: str) -> set[str]:
    """Return the instruction sets that a function may use; aes_block.c holds a portable part too."""
    if source == "aes_block.c" and not function.endswith("_aesni"):
        return {"base"}
    return ALLOWED.get(source, {"base"})
