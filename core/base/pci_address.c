/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/base/pci_address.h"

#include <stdio.h>

static int pci_address_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Parses all digits in sequence as one number, as NCCL reads any address: "0100:01.0" is
 * 0x0100010. */
static bool pci_address_parse_digits(const char *text, uint64_t *bus)
{
	uint64_t value = 0;
	int digits = 0, marks = 0;

	for (; *text; text++) {
		bool mark = *text == ':' || *text == '.';

		if (mark && (text[1] == '\0' || pci_address_digit(text[1]) < 0 || !digits))
			return false;
		if (!mark && (pci_address_digit(*text) < 0 || ++digits > 15))
			return false;
		marks += mark;
		if (!mark)
			value = value << 4 | (uint64_t)pci_address_digit(*text);
	}
	*bus = value;
	return marks > 0;
}

/* Parses domain, bus, device and function: "0000:13:00.0". The domain may have more than four
 * digits, the other parts fewer than usual. */
static bool pci_address_parse_parts(const char *text, uint64_t *bus)
{
	static const char after[4] = {':', ':', '.', '\0'};
	static const uint64_t most[4] = {0xfffffff, 0xff, 0xff, 0xf};
	static const int shift[4] = {20, 12, 4, 0};
	uint64_t value = 0;

	for (int i = 0; i < 4; i++) {
		uint64_t part = 0;
		int digits = 0;

		for (; pci_address_digit(*text) >= 0 && digits < 9; text++, digits++)
			part = part << 4 | (uint64_t)pci_address_digit(*text);
		if (!digits || part > most[i] || *text != after[i])
			return false;
		value |= part << shift[i];
		text++;
	}
	*bus = value;
	return true;
}

bool pci_address_is_whole(const char *text)
{
	uint64_t number;

	return pci_address_parse_parts(text, &number);
}

bool pci_address_parse(const char *text, uint64_t *number)
{
	return pci_address_parse_parts(text, number) || pci_address_parse_digits(text, number);
}

void pci_address_text(uint64_t number, char text[PCI_ADDRESS_TEXT])
{
	snprintf(text, PCI_ADDRESS_TEXT, "%04llx:%02x:%02x.%x", (unsigned long long)(number >> 20),
		 (unsigned)(number >> 12 & 0xff), (unsigned)(number >> 4 & 0xff),
		 (unsigned)(number & 0xf));
}
