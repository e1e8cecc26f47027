/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs that break a rule of the verbs sanitizer if check_bad is set, and follow it otherwise.
 * world_check.c runs them.
 */
#ifndef TESTS_CONFORMANCE_VERBS_WORLD_WORLD_CHECK_H
#define TESTS_CONFORMANCE_VERBS_WORLD_WORLD_CHECK_H

#include "tests/conformance/verbs/harness/world.h"

extern bool check_bad;

void change_what_is_being_sent(void);
void deregister_what_is_in_use(void);
void fill_a_queue(void);
void make_a_small_queue(void);
void overrun_a_queue(void);
void send_what_a_read_brings(void);
void modify_with_a_bit_too_few(void);
void modify_with_a_value_unset(void);
void wait_for_too_long(void);
void arm_and_do_not_poll(void);
void use_a_key_that_is_gone(void);
void register_without_local_write(void);
void write_over_the_end(void);
void send_from_another_domain(void);
void read_more_than_the_peer_takes(void);
void let_the_peer_wait(void);
void write_with_immediate_to_nobody(void);
void destroy_the_queue_first(void);
void close_with_something_open(void);
void add_across_words(void);
void add_globally_to_a_gpu(void);
void send_too_much_inline(void);
void end_an_address_in_use(void);
void receive_without_room_for_a_header(void);
void send_a_long_datagram(void);
void send_with_another_qkey(void);
void read_fields_of_an_error(void);
void read_a_field_that_is_not_there(void);
void read_immediate_data_unchecked(void);
void poll_from_two_threads(void);
void make_a_request_outside(void);
void destroy_it_twice(void);
void use_a_queue_of_another_context(void);
void ignore_that_a_post_failed(void);
void answer_into_what_is_being_sent(void);
void mend_a_refused_post_and_hang(void);

#endif
