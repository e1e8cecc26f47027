/* SPDX-License-Identifier: BSD-3-Clause */
/* core/base/xml: trees, lines, typed attributes, and every refusal. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/xml.h"
#include "tests/suite.h"

static struct xml_error error;

static struct xml_doc *parse(const char *text)
{
	struct xml_doc *doc = NULL;
	int rc = xml_parse(text, strlen(text), "t.xml", &doc, &error);
	ck_assert_msg(rc == 0, "%s", error.text);
	ck_assert_ptr_nonnull(doc);
	return doc;
}

static void refused(const char *text, int rc, const char *message)
{
	struct xml_doc *doc = (struct xml_doc *)&error;
	ck_assert_int_eq(xml_parse(text, strlen(text), "t.xml", &doc, &error), rc);
	ck_assert_ptr_eq(doc, &error);
	ck_assert_msg(strstr(error.text, message) != NULL, "'%s' does not say '%s'", error.text,
		      message);
}

START_TEST(tree_keeps_order_attributes_and_lines)
{
	struct xml_doc *doc =
		parse("<!-- licence -->\n<a x='1' y=\"\">\n <b n='0'/> <!-- tail -->\n"
		      " <c/>\n <b n='1'>text</b>\n</a>\n<!-- after -->\n");
	const struct xml_node *a = xml_root(doc);
	ck_assert_str_eq(a->name, "a");
	ck_assert_int_eq(a->line, 2);
	ck_assert_str_eq(xml_attr(a, "x"), "1");
	ck_assert_str_eq(xml_attr(a, "y"), "");
	ck_assert_ptr_null(xml_attr(a, "z"));
	const struct xml_node *b = xml_child(a, "b");
	ck_assert_str_eq(xml_attr(b, "n"), "0");
	ck_assert_int_eq(b->line, 3);
	ck_assert_str_eq(b->next->name, "c");
	b = xml_next(b, "b");
	ck_assert_str_eq(xml_attr(b, "n"), "1");
	ck_assert_ptr_eq(b->parent, a);
	ck_assert_ptr_null(xml_next(b, NULL));
	ck_assert_ptr_null(xml_child(b, NULL));
	xml_free(doc);
	xml_free(NULL);
}
END_TEST

START_TEST(numbers_are_read_with_their_defaults)
{
	struct xml_doc *doc = parse("<a i='-12' h='0x10' e='' z='010' f='20.6' g='32.0 GT/s PCIe' "
				    "l='0.000000' u='0xffffffffffffffff'/>");
	const struct xml_node *a = xml_root(doc);
	int64_t i;
	uint64_t u;
	ck_assert_int_eq(xml_attr_i64(a, "i", 0, &i, &error), 0);
	ck_assert_int_eq(i, -12);
	ck_assert_int_eq(xml_attr_i64(a, "h", 0, &i, &error), 0);
	ck_assert_int_eq(i, 16);
	ck_assert_int_eq(xml_attr_i64(a, "z", 0, &i, &error), 0);
	ck_assert_int_eq(i, 10);
	ck_assert_int_eq(xml_attr_i64(a, "e", 7, &i, &error), 0);
	ck_assert_int_eq(i, 7);
	ck_assert_int_eq(xml_attr_i64(a, "none", -1, &i, &error), 0);
	ck_assert_int_eq(i, -1);
	ck_assert_int_eq(xml_attr_u64(a, "u", 0, &u, &error), 0);
	ck_assert_uint_eq(u, UINT64_MAX);
	ck_assert_int_eq(xml_attr_milli(a, "f", NULL, 0, &i, &error), 0);
	ck_assert_int_eq(i, 20600);
	ck_assert_int_eq(xml_attr_milli(a, "g", "GT/s", 0, &i, &error), 0);
	ck_assert_int_eq(i, 32000);
	ck_assert_int_eq(xml_attr_milli(a, "l", NULL, 5, &i, &error), 0);
	ck_assert_int_eq(i, 0);
	xml_free(doc);
}
END_TEST

START_TEST(a_malformed_number_names_file_line_attribute_and_expectation)
{
	struct xml_doc *doc =
		parse("<a>\n<gpu sm='abc' big='99999999999999999999' neg='-1' f='1.x'/></a>");
	const struct xml_node *g = xml_root(doc)->child;
	int64_t i = 77;
	uint64_t u = 77;
	ck_assert_int_eq(xml_attr_i64(g, "sm", 0, &i, &error), EINVAL);
	ck_assert_str_eq(error.text,
			 "t.xml:2:1: <gpu> attribute 'sm' is 'abc', expected an integer");
	ck_assert_int_eq(xml_attr_i64(g, "big", 0, &i, &error), EINVAL);
	ck_assert_int_eq(xml_attr_u64(g, "neg", 0, &u, &error), EINVAL);
	ck_assert_int_eq(xml_attr_milli(g, "f", NULL, 0, &i, &error), EINVAL);
	ck_assert_int_eq(i, 77);
	ck_assert_uint_eq(u, 77);
	xml_free(doc);
}
END_TEST

START_TEST(malformed_text_is_refused_with_its_place)
{
	refused("", EINVAL, "t.xml:1:1: no element found");
	refused("<a>\n <b>\n</a>", EINVAL, "t.xml:3:3: mismatched tag; <b> of line 2 is open");
	refused("<a x='1' x='2'/>", EINVAL, "duplicate attribute");
	refused("<a/><b/>", EINVAL, "t.xml:1:5");
	refused("<a x=1/>", EINVAL, "not well-formed");
	refused("<a>\xff</a>", EINVAL, "not well-formed");
	refused("<a>&nothing;</a>", EINVAL, "undefined entity");
}
END_TEST

START_TEST(a_document_type_is_refused)
{
	refused("<!DOCTYPE lolz [<!ENTITY a \"lol\"><!ENTITY b \"&a;&a;&a;\">]><a>&b;</a>", EINVAL,
		"document type");
	refused("<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>", EINVAL, "document type");
}
END_TEST

START_TEST(limits_are_errors)
{
	char *text = malloc(XML_MAX_BYTES + 64);
	char *p = text;
	for (int i = 0; i <= XML_MAX_DEPTH; i++)
		p += sprintf(p, "<d>");
	refused(text, E2BIG, "nested deeper than 32");
	p = text + sprintf(text, "<r>");
	for (int i = 0; i < XML_MAX_NODES; i++)
		p += sprintf(p, "<d/>");
	sprintf(p, "</r>");
	refused(text, E2BIG, "more than 4096 elements");
	p = text + sprintf(text, "<r");
	for (int i = 0; i <= XML_MAX_ATTRS; i++)
		p += sprintf(p, " a%d=''", i);
	sprintf(p, "/>");
	refused(text, E2BIG, "65 attributes");
	memset(text, ' ', XML_MAX_BYTES + 1);
	text[XML_MAX_BYTES + 1] = '\0';
	refused(text, E2BIG, "bytes");
	free(text);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("xml");
	TCase *tc = tcase_create("xml");
	tcase_add_test(tc, tree_keeps_order_attributes_and_lines);
	tcase_add_test(tc, numbers_are_read_with_their_defaults);
	tcase_add_test(tc, a_malformed_number_names_file_line_attribute_and_expectation);
	tcase_add_test(tc, malformed_text_is_refused_with_its_place);
	tcase_add_test(tc, a_document_type_is_refused);
	tcase_add_test(tc, limits_are_errors);
	suite_add_tcase(suite, tc);
	return suite_run(suite);
}
