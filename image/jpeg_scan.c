#include "image/jpeg_scan.h"

#include "base/memory.h"
#include "image/jpeg_scan_state.h"

const struct scan_kernels *scan_kernels_for(enum cpu_level level)
{
#ifdef __x86_64__
    if (level >= CPU_AVX512)
        return &scan_kernels_avx512;
    if (level >= CPU_AVX2)
        return &scan_kernels_avx2;
#endif
    (void)level;
    return &scan_kernels_plain;
}

struct status jpeg_scanner_open(struct jpeg_scanner **ret_scanner)
{
    struct jpeg_scanner *scanner;
    TRY(memory_alloc(1, sizeof *scanner, &scanner));
    scanner->kernels = scan_kernels_for(cpu_level());
    *ret_scanner = scanner;
    return OK;
}

void jpeg_scanner_close(struct jpeg_scanner *scanner)
{
    if (!scanner)
        return;
    memory_free(scanner->ends);
    memory_free(scanner->bits);
    memory_free(scanner);
}

void scan_run_start(struct jpeg_scanner *scanner, const struct scan_walk *walk)
{
    const struct jpeg_scan_header *scan = &scanner->markers.scan;
    struct scan_run *run = &scanner->run;
    *run = (struct scan_run){.block_count = walk->block_count};
    for (unsigned b = 0; b < walk->block_count; b++) {
        unsigned slot = walk->blocks[b].slot;
        unsigned dc = scan->dc_tables[slot], ac = scan->ac_tables[slot];
        run->blocks[b] = (struct scan_run_block){
            .step = walk->blocks[b].step,
            .slot = slot,
            .dc = &scanner->dc[dc],
            .ac = &scanner->ac[ac],
            .dc_code = &scanner->dc_code[dc],
            .ac_code = &scanner->ac_code[ac],
        };
    }
}

uint32_t scan_run_place(struct scan_run *run, const struct scan_walk *walk,
                        const struct coefficients *coefficients, uint64_t mcu)
{
    uint32_t row = (uint32_t)(mcu / walk->mcus_wide), column = (uint32_t)(mcu % walk->mcus_wide);
    for (unsigned b = 0; b < walk->block_count; b++) {
        const struct scan_block *block = &walk->blocks[b];
        run->blocks[b].next = coefficients->blocks[block->component] + block->first +
                              row * block->row_step + column * block->step;
    }
    return walk->mcus_wide - column;
}
