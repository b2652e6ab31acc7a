// SPDX-License-Identifier: Apache-2.0

package file

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"

	"planb.dev/lookup/client/go/planbv1"
	"planb.dev/lookup/feed/source"
)

// What a server takes of tags.
const (
	maxTags  = 16
	maxKey   = 63
	maxValue = 255
)

// Adds what a line says to attributes.
func addAttribute(to source.Attributes, field, value string) (source.Attributes, error) {
	a := to.Decode()
	if a == nil {
		a = &planbv1.Attributes{}
	}
	var err error
	switch field {
	case "as":
		a.OriginAs, err = parseAS(value)
	case "path":
		if a.AsPath, err = parseASPath(value); a.OriginAs == 0 {
			a.OriginAs = source.Origin(a.AsPath)
		}
	case "community":
		for _, word := range strings.Fields(value) {
			if err == nil {
				err = addCommunity(a, word)
			}
		}
	case "extended":
		for _, word := range strings.Fields(value) {
			digits, hexadecimal := strings.CutPrefix(word, "0x")
			number, wrong := strconv.ParseUint(digits, 16, 64)
			if wrong != nil || !hexadecimal {
				return "", fmt.Errorf("%q is no extended community", word)
			}
			a.ExtendedCommunities = append(a.ExtendedCommunities, number)
		}
	case "local_pref":
		a.LocalPreference, err = parseNumber(value)
	case "med":
		a.Med, err = parseNumber(value)
	case "tag":
		err = addTag(a, value)
	}
	if err != nil {
		return "", err
	}
	encoded, cut := source.EncodeAttributes(a)
	if cut {
		return "", fmt.Errorf("%s %q is more than a server takes", field, value)
	}
	return encoded, nil
}

func parseNumber(text string) (*uint32, error) {
	number, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%q is no number of 32 bits", text)
	}
	return proto.Uint32(uint32(number)), nil
}

func parseAS(text string) (uint32, error) {
	number, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is no AS", text)
	}
	return uint32(number), nil
}

// Reads ASes with commas or blanks between them, and sets in braces.
func parseASPath(text string) (path []*planbv1.Attributes_Segment, err error) {
	set := false
	for _, word := range strings.Fields(strings.NewReplacer(",", " ", "{", " { ", "}", " } ").Replace(text)) {
		switch {
		case word == "{" && !set:
			set = true
			path = append(path, &planbv1.Attributes_Segment{Set: true})
			continue
		case word == "}" && set && len(path[len(path)-1].Numbers) > 0:
			set = false
			continue
		case !set && (len(path) == 0 || path[len(path)-1].Set):
			path = append(path, &planbv1.Attributes_Segment{})
		}
		number, err := parseAS(word)
		if err != nil {
			return nil, err
		}
		last := path[len(path)-1]
		last.Numbers = append(last.Numbers, number)
	}
	if set || len(path) == 0 {
		return nil, fmt.Errorf("%q is no AS path", text)
	}
	return path, nil
}

// Adds 64500:1, or a large one, 64500:1:2.
func addCommunity(to *planbv1.Attributes, text string) error {
	parts := strings.Split(text, ":")
	bits := 16
	if len(parts) == 3 {
		bits = 32
	}
	var numbers []uint32
	for _, part := range parts {
		number, err := strconv.ParseUint(part, 10, bits)
		if err != nil || len(parts) < 2 || len(parts) > 3 {
			return fmt.Errorf("%q is no community", text)
		}
		numbers = append(numbers, uint32(number))
	}
	if len(parts) == 2 {
		to.Communities = append(to.Communities, numbers[0]<<16|numbers[1])
	} else {
		to.LargeCommunities = append(to.LargeCommunities, &planbv1.Attributes_LargeCommunity{
			GlobalAdministrator: numbers[0], LocalData_1: numbers[1], LocalData_2: numbers[2]})
	}
	return nil
}

func addTag(to *planbv1.Attributes, text string) error {
	key, value, has := strings.Cut(text, "=")
	switch {
	case !has || key == "" || len(key) > maxKey || len(value) > maxValue || strings.ContainsFunc(text, unicode.IsControl):
		return fmt.Errorf("%q is no tag KEY=VALUE of at most %d and %d bytes", text, maxKey, maxValue)
	case slices.ContainsFunc(to.Tags, func(t *planbv1.Attributes_Tag) bool { return t.Key == key }):
		return fmt.Errorf("tag %q is there twice", key)
	case len(to.Tags) == maxTags:
		return fmt.Errorf("tag %q: more than %d", key, maxTags)
	}
	to.Tags = append(to.Tags, &planbv1.Attributes_Tag{Key: key, Value: value})
	return nil
}
