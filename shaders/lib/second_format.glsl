// A second format of the same matrix: the code of one format once more, with FORMAT as SECOND_FORMAT and every name after "second_" or "SECOND_".
// GLSL has no templates. If SECOND_TILE is 0, nothing of it is called, and no driver sees it (gpu/specialise.h).
#define FORMAT SECOND_FORMAT
#define BITS SECOND_BITS
#define IQ4 SECOND_IQ4
#define THREE SECOND_THREE
#define LOWER SECOND_LOWER
#define SUPER SECOND_SUPER
#define PACKED SECOND_PACKED
#define FIFTH SECOND_FIFTH
#define PAIRS SECOND_PAIRS
#define words_before_fifth second_words_before_fifth
#define words_before_notes second_words_before_notes
#define scale_of_pair second_scale_of_pair
#define line_of second_line_of
#define units_of_super second_units_of_super
#define scales_of_halves second_scales_of_halves
#define scales_of_line second_scales_of_line
#define halves_of_super second_halves_of_super
#define SCALES SECOND_SCALES
#define MINIMA SECOND_MINIMA
#define BLOCK_WORDS SECOND_BLOCK_WORDS
#define NOTED SECOND_NOTED
#define RUN SECOND_RUN
#define UPPER SECOND_UPPER
#define OF_UPPER SECOND_OF_UPPER
#define row_words second_row_words
#define block_word second_block_word
#define tile_words second_tile_words
#define upper_word second_upper_word
#define lower_of second_lower_of
#define scales_at second_scales_at
#define bytes_of_eight second_bytes_of_eight
#define integers_of second_integers_of
#define SUPER_TURN SECOND_SUPER_TURN
#define TURN SECOND_TURN
#define SCALE_LOADS SECOND_SCALE_LOADS
#define unpack_block second_unpack_block
#define places_of second_places_of
#define super_scales second_super_scales
#define block_scales second_block_scales
#define scales_block second_scales_block
#define step_word second_step_word
#define upper_bits second_upper_bits
#undef UNIT
#define unpack_integers second_unpack_integers
#define rows_dot second_rows_dot
#define IN_PLACE SECOND_IN_PLACE
#define IN_WORD SECOND_IN_WORD
#define quad_of second_quad_of
#define factors_of second_factors_of
#define sums_of_inputs second_sums_of_inputs
#define multiply_block second_multiply_block
#define load_weights second_load_weights
#define unpack second_unpack
#define weight_peaks second_weight_peaks
#define note_weight_peaks second_note_weight_peaks
#define weight_peak second_weight_peak
#define super_peak second_super_peak
#define unpack_to_store second_unpack_to_store
#ifdef WEFT_LANE_ROWS
#include "lib/format_rows.glsl"
#else
#include "lib/format_tiles.glsl"
#endif
#undef FORMAT
#undef BITS
#undef IQ4
#undef THREE
#undef LOWER
#undef SUPER
#undef PACKED
#undef FIFTH
#undef PAIRS
#undef words_before_fifth
#undef words_before_notes
#undef scale_of_pair
#undef line_of
#undef units_of_super
#undef scales_of_halves
#undef scales_of_line
#undef halves_of_super
#undef SCALES
#undef MINIMA
#undef BLOCK_WORDS
#undef NOTED
#undef RUN
#undef UPPER
#undef OF_UPPER
#undef row_words
#undef block_word
#undef tile_words
#undef upper_word
#undef lower_of
#undef scales_at
#undef bytes_of_eight
#undef integers_of
#undef SUPER_TURN
#undef TURN
#undef SCALE_LOADS
#undef unpack_block
#undef places_of
#undef super_scales
#undef block_scales
#undef scales_block
#undef step_word
#undef upper_bits
#undef unpack_integers
#undef rows_dot
#undef IN_PLACE
#undef IN_WORD
#undef quad_of
#undef factors_of
#undef sums_of_inputs
#undef multiply_block
#undef load_weights
#undef unpack
#undef weight_peaks
#undef note_weight_peaks
#undef weight_peak
#undef super_peak
#undef unpack_to_store
