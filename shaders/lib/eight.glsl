// Loops that the preprocessor unrolls: V3D's compiler does not unroll loops where registers run short, and then keeps the arrays that they index in
// memory.
#define FOUR(F) F(0) F(1) F(2) F(3)
#define SEVEN(F) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#define EIGHT(F) F(0) SEVEN(F)
