// OpSDot of SPV_KHR_integer_dot_product, with its capabilities DotProduct and DotProductInput4x8BitPacked: the sum of the products of four signed
// bytes. The format is PackedVectorFormat4x8Bit, 0.
#extension GL_EXT_spirv_intrinsics : require
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6019, 6018], id = 4450)
int dot_of_bytes(uint a, uint b, spirv_literal int format);
